// Cases of the CTC loss and its gradient.
// SPDX-License-Identifier: MIT
#include "primitives/ctc/ctc.h"

#include <algorithm>

#include "driver/run/ctc_args.h"
#include "reference/ctc.h"
#include "tests/runner/list_case.h"

namespace polymio::test {
namespace {

driver::CtcArgs parse(const std::string& line) {
  static constexpr driver::DataType kTypes[] = {driver::kFloat, driver::kHalf, driver::kBFloat16};
  const std::vector<std::string> arguments = driver::split_line(line);
  driver::CtcArgs args(type_of(arguments[0], {"ctc", kTypes}));
  parse_arguments(arguments, args.rows());
  return args;
}

class CtcCase final : public ListCase {
 public:
  explicit CtcCase(const std::string& line)
      : ListCase(line), blank_(parse(line).blank), wanted_(parse(line).problem()) {
    ctc::validate(problem_of(), sequences(), Status::kBadParm);
    const reference::Tensor losses(wanted_.probs.type, {wanted_.probs.lens[1]});
    operands = {{wanted_.probs}, {losses, Use::kWritten}, {wanted_.gradients, Use::kWritten}};
  }
  /// Values from -6 to 6 before a softmax, else logarithms of probabilities whose sum is about 1.
  void prepare() override {
    fill();
    const reference::Tensor& x = wanted_.probs;
    const double classes = static_cast<double>(x.lens[2]);
    for (std::int64_t i = 0; i < x.count(); ++i) {
      void* const data = operands[0].content.data();
      const double v = reference::load(x.type, data, x.offset(i));
      reference::store(x.type, data, x.offset(i), wanted_.softmax ? 6 * v : v - std::log(classes));
    }
    expected_ = evaluate(wanted_, content(0));
  }
  std::size_t workspace(const DeviceInfo& d) const override {
    return ctc::workspace_size(d, problem_of(), sequences());
  }
  void execute(Stream& stream, const Args& args) const override {
    ctc::run(stream, problem_of(), sequences(),
             {args.data[0], args.data[1], args.data[2], args.workspace, args.workspace_bytes});
  }
  reference::Comparison compare(const SolverBase&, std::size_t operand, const void* result) const override {
    return reference::compare(arithmetic(wanted_), operands[operand].tensor, result,
                              operand == 1 ? expected_.losses : expected_.gradients);
  }

 private:
  ctc::Problem problem_of() const {
    return {describe(wanted_.probs), describe(wanted_.gradients), blank_, wanted_.softmax};
  }
  ctc::Sequences sequences() const {
    return {wanted_.labels.data(), wanted_.label_lengths.data(), wanted_.input_lengths.data()};
  }

  std::int64_t blank_;
  reference::Ctc wanted_;
  reference::CtcResults expected_;
};

}  // namespace

Cases ctc_cases(const std::string& line) {
  Cases cases;
  cases.push_back(std::make_unique<CtcCase>(line));
  return cases;
}

}  // namespace polymio::test
