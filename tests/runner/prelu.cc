// Cases of the gradients of the parametric ReLU.
// SPDX-License-Identifier: MIT
#include "reference/prelu.h"

#include "driver/run/prelu_args.h"
#include "primitives/prelu/prelu.h"
#include "tests/runner/list_case.h"

namespace polymio::test {
namespace {

using Line = ListLine<driver::PreluArgs>;
enum { kX, kWeight, kDy, kDx, kDweight };

class PreluCase final : public ListCase {
 public:
  explicit PreluCase(Line line)
      : ListCase(line.text(driver::kBackwardData)),
        wanted_{line.tensor(line.tensors.x_strides()),
                line.tensor(line.tensors.dy_strides()),
                {line.type(), {line.own.weights}}} {
    const reference::Tensor dx = line.tensor(line.tensors.dx_strides());
    operands = {{wanted_.x}, {wanted_.weight}, {wanted_.dy}, {dx, Use::kWritten}, {wanted_.weight, Use::kWritten}};
  }
  void prepare() override {
    fill();
    dx_ = prelu_input(wanted_, content(kX), content(kWeight), content(kDy));
    dweight_ = prelu_weight(wanted_, content(kX), content(kDy));
  }
  std::size_t workspace(const DeviceInfo& d) const override {
    return prelu::workspace_size(d, describe(wanted_.x), describe(wanted_.weight));
  }
  void execute(Stream& stream, const Args& args) const override {
    const auto in = [&](std::size_t i) { return prelu::Backward::Input{describe(operands[i].tensor), args.data[i]}; };
    const auto out = [&](std::size_t i) { return prelu::Backward::Output{describe(operands[i].tensor), args.data[i]}; };
    prelu::backward(stream, {in(kX), in(kWeight), in(kDy), out(kDx), out(kDweight)}, args.workspace,
                    args.workspace_bytes);
  }
  reference::Comparison compare(const SolverBase&, std::size_t operand, const void* result) const override {
    const bool weight = operand == kDweight;
    return reference::compare(arithmetic(wanted_, weight), operands[operand].tensor, result, weight ? dweight_ : dx_);
  }

 private:
  reference::Prelu wanted_;
  reference::Result dx_, dweight_;
};

}  // namespace

Cases prelu_cases(const std::string& line) {
  Cases cases;
  cases.push_back(std::make_unique<PreluCase>(Line(line)));
  return cases;
}

}  // namespace polymio::test
