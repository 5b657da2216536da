// Cases of convolution. "# DATA" behind a line chooses values.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <iterator>
#include <optional>
#include <stdexcept>

#include "tests/convolution/trial.h"
#include "tests/runner/runner.h"

namespace polymio::test {
namespace {

using convolution::Direction;
using convolution::Problem;

bool is_narrow(const TensorDesc& t) { return t.has_cast() || is_fp8(t.type); }

constexpr const char* kData[] = {"uniform", "log-normal", "huge", "small", "subnormal", "infinite", "nan"};

class ConvolutionCase final : public Case {
 public:
  ConvolutionCase(const driver::ConvArgs& args, driver::Direction direction, Data data)
      : source_(args, direction), problem_(translate(source_)), data_(data) {
    operands = {{source_.math.x}, {source_.math.w}, {source_.math.y}};
    const int output = problem_.direction == Direction::kForward        ? 2
                       : problem_.direction == Direction::kBackwardData ? 0
                                                                        : 1;
    operands[output].use = args.beta != 0 ? Use::kUpdated : Use::kWritten;
  }
  std::string line() const override { return source_.line(); }
  const ProblemBase& problem() const override { return problem_; }
  SolverList solvers(DeviceKind kind) const override {
    const SolverList all = convolution::solvers(problem_.direction, kind);
    if (data_ == Data::kUniform) return all;
    plain_.clear();
    for (const SolverBase* s : all)
      if (!s->info().transforms && s->error_class(problem_) <= ErrorClass::kAccurate) plain_.push_back(s);
    return plain_;
  }
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
    trial_.emplace(source_, Gaps::kNumbers, 1, data_);
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
  Data data_;
  mutable std::vector<const SolverBase*> plain_;  // without transforms and rounded factors
  std::optional<Trial> trial_;
};

}  // namespace

Cases convolution_cases(const std::string& line) {
  const std::size_t end = std::min(line.find(" # "), line.size());
  const std::string name = end < line.size() ? line.substr(end + 3) : kData[0];
  const auto data = std::ranges::find(kData, name);
  if (data == std::end(kData)) throw std::invalid_argument("no values are named '" + name + "'");
  const driver::ConvArgs args = driver::parse_line(line.substr(0, end));
  Cases cases;
  for (const auto d : {driver::kForward, driver::kBackwardData, driver::kBackwardWeights})
    if (driver::direction_mask(args) & d)
      cases.push_back(std::make_unique<ConvolutionCase>(args, d, static_cast<Data>(data - kData)));
  return cases;
}

}  // namespace polymio::test
