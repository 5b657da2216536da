// SPDX-License-Identifier: MIT
#include "core/composite.h"

#include <algorithm>
#include <iterator>

#include "base/math.h"

namespace polymio {
namespace {

/// The offset of the next buffer in the workspace.
std::size_t aligned(std::size_t end) {
  constexpr std::int64_t kAlignment = 256;
  return static_cast<std::size_t>(round_up(static_cast<std::int64_t>(end), kAlignment));
}

/// Distributes the values of a composite's tune point to its steps, in order.
class StepPoints {
 public:
  StepPoints(const DeviceInfo& device, const TunePoint& point) : device_(device), point_(point) {}

  /// The point of the next step, valid until the next call.
  const TunePoint& next(const Step& step) {
    if (step.knobs == kAllKnobs && used_ == 0) {
      used_ = point_.size();
      return point_;
    }
    if (step.knobs == kNoKnobs) return own_ = step.solver.default_point(device_, step.problem);
    const auto first = point_.begin() + static_cast<std::ptrdiff_t>(used_);
    used_ += std::min(step.knobs, point_.size() - used_);
    own_.assign(first, point_.begin() + static_cast<std::ptrdiff_t>(used_));
    return own_;
  }
  bool are_all_used() const { return used_ == point_.size(); }

 private:
  const DeviceInfo& device_;
  const TunePoint& point_;
  std::size_t used_ = 0;
  TunePoint own_;
};

}  // namespace

WorkspaceBuffer Steps::buffer(std::size_t bytes) {
  const std::size_t offset = aligned(end_);
  end_ = offset + bytes;
  return {offset};
}

Verdict Composite::is_applicable(const DeviceInfo& d, const ProblemBase& p) const {
  Verdict of_steps;
  const auto ask = [&](const Step& s) {
    if (of_steps) of_steps = s.solver.is_applicable(d, s.problem);
  };
  Steps to(0, ask);
  const Verdict v = steps(d, p, to);
  return v ? of_steps : v;
}

ErrorClass Composite::error_class(const ProblemBase& p) const {
  ErrorClass worst = ErrorClass::kExact;
  visit({}, p, [&](const Step& s) { worst = std::max(worst, s.solver.error_class(s.problem)); });
  return worst;
}

std::size_t Composite::workspace_size(const DeviceInfo& d, const ProblemBase& p, const TunePoint& t) const {
  std::size_t scratch = 0;
  const std::size_t buffers = measure(d, p, t, scratch);
  return buffers == 0 ? scratch : aligned(scratch) + buffers;
}

double Composite::estimate(const DeviceInfo& d, const ProblemBase& p, const TunePoint& t) const {
  double sum = 0;
  StepPoints points(d, t);
  visit(d, p, [&](const Step& s) { sum += s.solver.estimate(d, s.problem, points.next(s)); });
  return sum;
}

TuneSpace Composite::tune_space(const DeviceInfo& d, const ProblemBase& p) const {
  TuneSpace all;
  visit(d, p, [&](const Step& s) {
    if (s.knobs != kNoKnobs) std::ranges::move(s.solver.tune_space(d, s.problem), std::back_inserter(all));
  });
  return all;
}

bool Composite::is_valid(const DeviceInfo& d, const ProblemBase& p, const TunePoint& t) const {
  bool valid = true;
  StepPoints points(d, t);
  visit(d, p, [&](const Step& s) { valid = s.solver.is_valid(d, s.problem, points.next(s)) && valid; });
  return valid && points.are_all_used();
}

TunePoint Composite::default_point(const DeviceInfo& d, const ProblemBase& p) const {
  TunePoint all;
  visit(d, p, [&](const Step& s) {
    if (s.knobs != kNoKnobs) std::ranges::copy(s.solver.default_point(d, s.problem), std::back_inserter(all));
  });
  return all;
}

std::vector<KernelSpec> Composite::kernel_specs(const DeviceInfo& d, const ProblemBase& p, const TunePoint& t) const {
  std::vector<KernelSpec> all;
  StepPoints points(d, t);
  visit(d, p, [&](const Step& s) {
    std::ranges::move(s.solver.kernel_specs(d, s.problem, points.next(s)), std::back_inserter(all));
  });
  return all;
}

AnyInvoker Composite::build(Stream& stream, const ProblemBase& p, const TunePoint& t) const {
  const DeviceInfo& d = stream.info();
  std::size_t scratch = 0;
  measure(d, p, t, scratch);
  std::vector<AnyInvoker> runs;
  StepPoints points(d, t);
  const auto make = [&](const Step& s) { runs.push_back(s.bind(s.solver.build(stream, s.problem, points.next(s)))); };
  visit(d, p, make, aligned(scratch));
  if (runs.size() == 1) return std::move(runs[0]);
  return [runs = std::move(runs)](Stream& on, const void* args) {
    for (const AnyInvoker& run : runs) run(on, args);
  };
}

std::size_t Composite::visit(const DeviceInfo& d, const ProblemBase& p, FunctionRef<void(const Step&)> each,
                             std::size_t first_buffer) const {
  Steps to(first_buffer, each);
  steps(d, p, to);
  return to.end();
}

std::size_t Composite::measure(const DeviceInfo& d, const ProblemBase& p, const TunePoint& t,
                               std::size_t& scratch) const {
  StepPoints points(d, t);
  return visit(
      d, p, [&](const Step& s) { scratch = std::max(scratch, s.solver.workspace_size(d, s.problem, points.next(s))); });
}

}  // namespace polymio
