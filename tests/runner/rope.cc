// Cases of rotary position embeddings.
// SPDX-License-Identifier: MIT
#include "reference/rope.h"

#include "driver/run/rope_args.h"
#include "primitives/rope/rope.h"
#include "tests/runner/list_case.h"

namespace polymio::test {
namespace {

using Line = ListLine<driver::RopeArgs>;
enum { kX, kCos, kSin, kY };

class RopeCase final : public ListCase {
 public:
  RopeCase(Line line, bool backward) : ListCase(line.text(backward ? driver::kBackwardData : driver::kForward)) {
    const driver::TensorArgs& t = line.tensors;
    const reference::Tensor rotary(line.type(), line.own.rotary_lens(t));
    wanted_ = {line.tensor(backward ? t.dy_strides() : t.x_strides()), rotary, backward};
    const reference::Tensor y = line.tensor(backward ? t.dx_strides() : t.y_strides());
    operands = {{wanted_.x}, {rotary}, {rotary}, {y, Use::kWritten}};
  }
  void prepare() override {
    fill();
    expected_ = evaluate(wanted_, content(kX), content(kCos), content(kSin));
  }
  void execute(Stream& stream, const Args& args) const override {
    const auto in = [&](std::size_t i) { return rope::Tensors::Input{describe(operands[i].tensor), args.data[i]}; };
    const rope::Tensors p{in(kX), in(kCos), in(kSin), describe(operands[kY].tensor), args.data[kY]};
    wanted_.backward ? rope::backward(stream, p) : rope::forward(stream, p);
  }
  reference::Comparison compare(const SolverBase&, std::size_t, const void* result) const override {
    return reference::compare(reference::rope_arithmetic(wanted_.x.type), operands[kY].tensor, result, expected_);
  }

 private:
  reference::Rope wanted_;
  reference::Result expected_;
};

}  // namespace

Cases rope_cases(const std::string& line) {
  const Line parsed(line);
  Cases cases;
  for (const bool backward : {false, true})
    if (parsed.has(backward ? driver::kBackwardData : driver::kForward))
      cases.push_back(std::make_unique<RopeCase>(parsed, backward));
  return cases;
}

}  // namespace polymio::test
