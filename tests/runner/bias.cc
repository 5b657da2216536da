// Cases of the bias of a convolution: of a convolution's line only y, alpha and beta matter. Bias has no solvers, so
// the function behind the C API is run as one.
// SPDX-License-Identifier: MIT
#include "driver/run/conv_problem.h"
#include "primitives/tensor_ops/tensor_ops.h"
#include "reference/tensor_ops.h"
#include "tests/convolution/trial.h"
#include "tests/runner/runner.h"

namespace polymio::test {
namespace {

enum class Direction : int { kForward, kBackward };

struct Problem final : ProblemOf<Problem> {
  struct Args {
    void *b, *y;
    double alpha, beta;
  };
  Direction direction = Direction::kForward;
  TensorDesc b, y;
  std::string text;  // the case's line

  auto fields() const { return std::tie(direction, b, y); }
  std::string key() const override { return text; }
  std::string family() const override { return text; }
  std::vector<float> log_sizes() const override { return {}; }
  double work() const override { return static_cast<double>(y.count()); }
};

class Pass final : public Solver<Problem> {
 public:
  explicit Pass(Direction direction) : Solver(info_of(direction)) {}
  Verdict is_applicable(const DeviceInfo&, const Problem&) const override { return {}; }
  double estimate(const DeviceInfo&, const Problem&, const TunePoint&) const override { return 0; }
  Invoker build(Stream&, const Problem& p, const TunePoint&) const override {
    return [p](Stream& stream, const Args& a) {
      if (p.direction == Direction::kForward)
        return tensor_ops::bias_forward(stream, a.alpha, {p.b, a.b}, a.beta, {p.y, a.y});
      tensor_ops::bias_backward(stream, a.alpha, {p.y, a.y}, a.beta, {p.b, a.b});
    };
  }

 private:
  static SolverInfo info_of(Direction d) {
    SolverInfo info;
    info.name = d == Direction::kForward ? "BiasFwd" : "BiasBwd";
    info.devices = ~0u;
    return info;
  }
};

class BiasCase final : public Case {
 public:
  BiasCase(const driver::ConvArgs& args, driver::Direction direction)
      : forward_(direction == driver::kForward), alpha_(args.alpha), beta_(args.beta) {
    const driver::Problem source(args, direction);
    const reference::Tensor y = source.tensors[driver::kY];
    std::vector<std::int64_t> lens(y.lens.size(), 1);
    lens[1] = y.lens[1];
    operands = {{reference::Tensor(y.type, lens)}, {y}};
    // y = alpha * (y + b) + beta * y
    (forward_ ? operands[1] : operands[0]).use = forward_ || beta_ != 0 ? Use::kUpdated : Use::kWritten;
    problem_.direction = forward_ ? Direction::kForward : Direction::kBackward;
    problem_.b = describe(operands[0].tensor);
    problem_.y = describe(y);
    problem_.text = source.line();
  }
  std::string line() const override { return problem_.text; }
  const ProblemBase& problem() const override { return problem_; }
  SolverList solvers(DeviceKind) const override {
    static const Pass forward(Direction::kForward), backward(Direction::kBackward);
    static const SolverBase* const kForward[] = {&forward};
    static const SolverBase* const kBackward[] = {&backward};
    return forward_ ? kForward : kBackward;
  }
  bool has_problem_of(const Case& other) const override { return problem_.equals(other.problem()); }
  void prepare() override {
    for (std::size_t i = 0; i < operands.size(); ++i)
      operands[i].content = random_tensor(operands[i].tensor, i + 1, Gaps::kNan);
    const auto& [b, y] = std::tie(operands[0], operands[1]);
    const void *const b_data = b.content.data(), *const y_data = y.content.data();
    expected_ = forward_ ? reference::bias_forward(alpha_, b.tensor, b_data, alpha_ + beta_, y.tensor, y_data)
                         : reference::bias_backward(alpha_, y.tensor, y_data, beta_, b.tensor, b_data);
  }
  void run(const AnyInvoker& invoke, Stream& stream, std::span<void* const> data, void*, std::size_t) const override {
    const Problem::Args args{data[0], data[1], alpha_, beta_};
    invoke(stream, &args);
  }
  reference::Comparison compare(const SolverBase&, std::size_t operand, const void* result) const override {
    const reference::Tensor &y = operands[1].tensor, &to = operands[operand].tensor;
    reference::Arithmetic how;
    how.output = y.type;
    how.accumulate = y.type == reference::Type::kDouble ? reference::Type::kDouble : reference::Type::kFloat;
    how.reduction_length = forward_ ? 2 : y.count() / y.lens[1];
    return reference::compare(how, to, result, expected_);
  }

 private:
  bool forward_;
  double alpha_, beta_;
  Problem problem_;
  reference::Result expected_;
};

}  // namespace

Cases bias_cases(const std::string& line) {
  const driver::ConvArgs args = driver::parse_line(line);
  Cases cases;
  for (const auto d : {driver::kForward, driver::kBackwardData})
    if (driver::direction_mask(args) & d) cases.push_back(std::make_unique<BiasCase>(args, d));
  return cases;
}

}  // namespace polymio::test
