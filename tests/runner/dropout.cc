// Cases of dropout. It has no solvers, so the function behind the C API is run as one.
// SPDX-License-Identifier: MIT
#include "reference/dropout.h"

#include <fmt/format.h>

#include <cstring>

#include "core/problem_text.h"
#include "driver/run/dropout_args.h"
#include "primitives/dropout/dropout.h"
#include "tests/runner/line.h"
#include "tests/runner/runner.h"
#include "tests/runner/tensors.h"

namespace polymio::test {
namespace {

struct Args {
  driver::TensorArgs tensors;
  driver::DropoutArgs dropout;

  driver::Flags rows() { return tensors.rows(dropout.rows()); }
};

struct Problem final : ProblemOf<Problem> {
  struct Args {
    dropout::Choice choice;
    const void* x;
    void* y;
  };
  TensorDesc x, y;
  std::string text;  // the case's line

  auto fields() const { return std::tie(x, y); }
  std::string key() const override { return text; }
  std::string family() const override { return text; }
  std::vector<float> log_sizes() const override { return {}; }
  double work() const override { return static_cast<double>(y.count()); }
};

class Pass final : public Solver<Problem> {
 public:
  Pass() : Solver({.name = "Dropout", .devices = ~0u}) {}
  Verdict is_applicable(const DeviceInfo&, const Problem&) const override { return {}; }
  double estimate(const DeviceInfo&, const Problem&, const TunePoint&) const override { return 0; }
  Invoker build(Stream&, const Problem& p, const TunePoint&) const override {
    return [p](Stream& stream, const Args& a) { dropout::apply(stream, a.choice, p.x, a.x, p.y, a.y); };
  }
};

class DropoutCase final : public Case {
 public:
  DropoutCase(const Args& args, bool backward, std::string text) : args_(args.dropout) {
    const driver::TensorArgs& t = args.tensors;
    const auto type = static_cast<reference::Type>(t.type);
    const reference::Tensor x(type, t.lens(), backward ? t.dy_strides() : t.x_strides());
    const reference::Tensor y(type, t.lens(), backward ? t.dx_strides() : t.y_strides());
    choice_.rate = static_cast<float>(args_.rate);
    choice_.stored = backward ? args_.reserve != 0 : args_.use_mask != 0;
    choice_.advances = !backward && args_.state_evo && args_.reserve && !choice_.stored;
    operands = {{x}, {y, Use::kWritten}};
    const std::int64_t numbers = reference::generators_for(x.count()) * 6;
    operands.push_back({{reference::Type::kInt32, {numbers}}, choice_.advances ? Use::kUpdated : Use::kRead});
    if (args_.reserve)
      operands.push_back({{reference::Type::kInt8, {x.count()}}, choice_.stored ? Use::kRead : Use::kWritten});
    problem_.x = describe(x);
    problem_.y = describe(y);
    problem_.text = std::move(text);
  }
  std::string line() const override { return problem_.text; }
  const ProblemBase& problem() const override { return problem_; }
  SolverList solvers(DeviceKind) const override {
    static const Pass pass;
    static const SolverBase* const kAll[] = {&pass};
    return kAll;
  }
  bool has_problem_of(const Case& other) const override { return problem_.equals(other.problem()); }
  void prepare() override {
    for (std::size_t i = 0; i < 2; ++i) operands[i].content = random_tensor(operands[i].tensor, i + 1, Gaps::kNan);
    const reference::Tensor& x = operands[0].tensor;
    auto states = reference::start_generators(args_.seed(), reference::generators_for(x.count()));
    std::vector<unsigned char>& before = operands[2].content;
    before.resize(operands[2].tensor.bytes());
    std::memcpy(before.data(), states.data(), before.size());
    mask_ = reference::draw_mask(states, x.count(), choice_.rate);
    for (std::size_t i = 0; choice_.stored && i < mask_.size(); ++i) mask_[i] = i % 3 == 0 ? 0 : i % 3 == 1 ? 1 : 255;
    if (operands.size() > 3) operands[3].content = mask_;
    expected_[1] = reference::dropout(x, operands[0].content.data(), mask_.data(), choice_.rate);
    for (const auto& state : states)
      for (const std::uint32_t number : state) expected_[2].value.push_back(static_cast<std::int32_t>(number));
    for (const unsigned char byte : mask_) expected_[3].value.push_back(byte);
    for (reference::Result& r : expected_) r.magnitude.resize(r.value.size());
  }
  void run(const AnyInvoker& invoke, Stream& stream, std::span<void* const> data, void*, std::size_t) const override {
    Problem::Args args{choice_, data[0], data[1]};
    args.choice.states = data[2];
    args.choice.states_bytes = operands[2].tensor.bytes();
    if (data.size() > 3) args.choice.mask = static_cast<std::uint8_t*>(data[3]);
    invoke(stream, &args);
  }
  reference::Comparison compare(const SolverBase&, std::size_t operand, const void* result) const override {
    const reference::Type type = operands[operand].tensor.type;
    reference::Arithmetic how;
    how.output = type;
    how.accumulate = reference::is_integer(type)        ? reference::Type::kInt64
                     : type == reference::Type::kDouble ? reference::Type::kDouble
                                                        : reference::Type::kFloat;
    return reference::compare(how, operands[operand].tensor, result, expected_[operand]);
  }

 private:
  driver::DropoutArgs args_;
  dropout::Choice choice_;
  Problem problem_;
  std::vector<unsigned char> mask_;
  reference::Result expected_[4];
};

}  // namespace

Cases dropout_cases(const std::string& line) {
  const Args args = parse_tensors<Args>(line, "dropout");
  const std::int64_t directions = args.tensors.directions == 0 ? 3 : args.tensors.directions;
  Cases cases;
  for (const bool backward : {false, true})
    if (directions & (backward ? 2 : 1))
      cases.push_back(std::make_unique<DropoutCase>(args, backward, fmt::format("{} -F {}", line, backward ? 2 : 1)));
  return cases;
}

}  // namespace polymio::test
