// Cases of convolution.
// SPDX-License-Identifier: MIT
#include <optional>

#include "tests/convolution/trial.h"
#include "tests/runner/runner.h"

namespace polymio::test {
namespace {

using convolution::Direction;
using convolution::Problem;

bool is_narrow(const TensorDesc& t) { return t.has_cast() || is_fp8(t.type); }

class ConvolutionCase final : public Case {
 public:
  ConvolutionCase(const driver::ConvArgs& args, driver::Direction direction)
      : source_(args, direction), problem_(translate(source_)) {
    operands = {{source_.math.x}, {source_.math.w}, {source_.math.y}};
    const int output = problem_.direction == Direction::kForward        ? 2
                       : problem_.direction == Direction::kBackwardData ? 0
                                                                        : 1;
    operands[output].use = args.beta != 0 ? Use::kUpdated : Use::kWritten;
  }
  std::string line() const override { return source_.line(); }
  const ProblemBase& problem() const override { return problem_; }
  SolverList solvers(DeviceKind kind) const override { return convolution::solvers(problem_.direction, kind); }
  bool has_problem_of(const Case& other) const override {
    Problem same = static_cast<const ConvolutionCase&>(other).problem_, mine = problem_;
    same.scalars = mine.scalars;
    for (Problem* p : {&same, &mine})
      for (TensorDesc* t : {&p->x, &p->w, &p->y}) *t = without_idle_strides(*t);
    return mine == same;
  }
  /// Casts and some 8-bit floats run on the CPU only.
  bool needs_solver(DeviceKind kind) const override {
    return kind == DeviceKind::kCpu || !(is_narrow(problem_.x) || is_narrow(problem_.w) || is_narrow(problem_.y));
  }
  void prepare() override {
    trial_.emplace(source_);
    operands[0].content = std::move(trial_->x);
    operands[1].content = std::move(trial_->w);
    operands[2].content = std::move(trial_->y);
  }
  void run(const AnyInvoker& invoke, Stream& stream, std::span<void* const> data, void* workspace,
           std::size_t workspace_bytes) const override {
    const Problem::Args args{.x = data[0],
                             .w = data[1],
                             .y = data[2],
                             .alpha = source_.args.alpha,
                             .beta = source_.args.beta,
                             .workspace = workspace,
                             .workspace_bytes = workspace_bytes,
                             .seed = 7};
    invoke(stream, &args);
  }
  reference::Comparison compare(const SolverBase& solver, std::size_t, const void* result) const override {
    return trial_->compare(solver, result);
  }

 private:
  driver::Problem source_;
  Problem problem_;
  std::optional<Trial> trial_;
};

}  // namespace

Cases convolution_cases(const std::string& line) {
  const driver::ConvArgs args = driver::parse_line(line);
  Cases cases;
  for (const auto d : {driver::kForward, driver::kBackwardData, driver::kBackwardWeights})
    if (driver::direction_mask(args) & d) cases.push_back(std::make_unique<ConvolutionCase>(args, d));
  return cases;
}

}  // namespace polymio::test
