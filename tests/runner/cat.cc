// Cases of concatenation: the inputs, then the output.
// SPDX-License-Identifier: MIT
#include "primitives/cat/cat.h"

#include "driver/run/cat_args.h"
#include "reference/cat.h"
#include "tests/runner/pass.h"
#include "tests/runner/tensors.h"

namespace polymio::test {
namespace {

constexpr driver::DataType kTypes[] = {driver::kFloat, driver::kHalf, driver::kBFloat16, driver::kInt8,
                                       driver::kDouble};

class CatCase final : public PassCase {
 public:
  CatCase(driver::CatArgs& args, std::string text) : PassCase("Cat"), inputs_(args.tensors()), dim_(args.dim) {
    problem_.text = std::move(text);
    axis_ = args.axis(inputs_);
    for (const reference::Tensor& t : inputs_) operands.push_back({t});
    operands.push_back({args.output()});
    set_output(inputs_.size(), Use::kWritten);
  }
  void prepare() override {
    std::vector<const void*> data;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      operands[i].content = random_tensor(inputs_[i], i + 1, Gaps::kNan);
      data.push_back(operands[i].content.data());
    }
    operands[output_].content.assign(operands[output_].tensor.bytes(), kPoison);
    expected_ = reference::cat(inputs_, data, axis_);
  }

 private:
  void run(Stream& stream, std::span<void* const> data) const override {
    std::vector<TensorDesc> descs;
    for (const reference::Tensor& t : inputs_) descs.push_back(describe(t));
    std::vector<cat::Input> inputs;
    for (std::size_t i = 0; i < inputs_.size(); ++i) inputs.push_back({&descs[i], data[i]});
    cat::forward(stream, inputs, describe(operands[output_].tensor), data[output_], dim_);
  }
  reference::Comparison compare(const void* result) const override {
    reference::Arithmetic exact;
    exact.output = inputs_[0].type;
    exact.accumulate = reference::Type::kInt64;
    return reference::compare(exact, operands[output_].tensor, result, expected_);
  }

  std::vector<reference::Tensor> inputs_;
  std::int64_t dim_;
  std::size_t axis_ = 0;
  reference::Result expected_;
};

}  // namespace

Cases cat_cases(const std::string& line) {
  const std::vector<std::string> arguments = driver::split_line(line);
  const std::string& base = arguments[0];
  driver::CatArgs args, fresh;
  args.type = type_of(base, {"cat", kTypes});
  parse_arguments(arguments, args.rows());
  Cases cases;
  cases.push_back(std::make_unique<CatCase>(args, base + flags_text(args.rows(), fresh.rows(), 2, false)));
  return cases;
}

}  // namespace polymio::test
