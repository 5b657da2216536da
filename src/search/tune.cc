// SPDX-License-Identifier: MIT
#include "search/tune.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>

#include "base/error.h"
#include "base/log.h"
#include "core/kernel_builder.h"

namespace polymio::search {
namespace {

constexpr std::size_t kFastestPoints = 3;

class Search {
 public:
  Search(const Request& rq, Verifier& verifier, Candidate& candidate, const void* args, const TuneLimits& limits)
      : rq_(rq),
        verifier_(verifier),
        candidate_(candidate),
        args_(args),
        limits_(limits),
        points_(tune_points(rq, candidate)) {}

  /// Reads the measurements of an earlier search from the database.
  void resume() {
    const SolverInfo info = candidate_.solver->info();
    const auto& device = rq_.handle.device();
    for (const FindRecord& r : find_db(device.architecture).trials(rq_.problem.key(), info.name)) {
      if (r.solver_version != info.version || r.units != device.units || r.thread_cap != device.threads) continue;
      const TunePoint point = parse_tune_point(r.tune_point);
      if (std::find(points_.begin(), points_.end(), point) == points_.end()) continue;
      times_[point] = r.kind == RecordKind::kTrial ? r.time_us : INFINITY;
      best_us_ = std::min(best_us_, times_[point]);
    }
  }

  TuneResult run() {
    start_us_ = rq_.clock->now_us();
    std::size_t without_gain = 0;
    bool exhausted = true;
    for (const TunePoint& point : points_) {
      if (times_.contains(point)) continue;
      if (times_.size() >= limits_.iterations || without_gain >= limits_.patience) break;
      if (!fits(point) || tell()) {
        exhausted = false;
        break;
      }
      build_next_programs(static_cast<std::size_t>(&point - points_.data()));
      const double us = try_point(point);
      without_gain = us < best_us_ ? 0 : without_gain + 1;
      best_us_ = std::min(best_us_, us);
      ++result_.measured;
      if (result_.wrong) return result_;
    }
    result_.complete = exhausted;
    if (exhausted) tell();
    decide();
    return result_;
  }

 private:
  double left_us() const { return limits_.time_us - (rq_.clock->now_us() - start_us_); }

  /// Whether the workspace limit excludes valid points.
  bool narrowed() const {
    const auto& device = rq_.handle.device();
    for (const TunePoint& p : valid_points(*candidate_.solver, device, rq_.problem))
      if (candidate_.solver->workspace_size(device, rq_.problem, p) > rq_.constraints.workspace_limit) return true;
    return false;
  }

  /// Under a strict limit half of the time is reserved for decide().
  bool fits(const TunePoint& point) const {
    if (!limits_.strict) return left_us() > 0;
    const double us = candidate_.solver->estimate(rq_.handle.device(), rq_.problem, point);
    return 2 * us <= left_us() - 0.5 * limits_.time_us;
  }

  /// The budget; under a strict limit its total is the rest of the time less `share` of the limit.
  Budget within(Budget budget, double share) const {
    if (limits_.strict) budget.total_us = std::max(0.0, left_us() - share * limits_.time_us);
    if (result_.cancelled) budget.total_us = 0;
    budget.strict = budget.strict || limits_.strict || result_.cancelled;
    return budget;
  }

  /// Reports the progress; true when the callback stops the tuning.
  bool tell() {
    const auto callback = rq_.handle.tuning_callback();  // it may be replaced meanwhile
    if (!callback) return false;
    const double spent = (rq_.clock->now_us() - start_us_) * 1e-6;
    const auto rest = static_cast<double>(points_.size() - times_.size());
    const double pace = result_.measured ? spent / static_cast<double>(result_.measured) : 0;
    result_.cancelled = callback(
        {rq_.problem.key(), candidate_.solver->info().name, times_.size(), points_.size(), best_us_, pace * rest});
    return result_.cancelled;
  }

  Candidate at(const TunePoint& point) const {
    Candidate c = candidate_;
    const auto& device = rq_.handle.device();
    c.point = point;
    c.workspace = c.solver->workspace_size(device, rq_.problem, point);
    c.us = c.solver->estimate(device, rq_.problem, point);
    c.source = Source::kMeasured;
    return c;
  }

  /// On GPUs: builds the programs of this point and of the next ones together, as many as are compiled at the same
  /// time. Nothing is compiled while a point is measured: that would disturb it.
  void build_next_programs(std::size_t point) {
    if (point < built_) return;
    std::vector<KernelSpec> programs;
    std::size_t rest = std::min(compile_threads(), limits_.iterations - times_.size());
    for (built_ = point; built_ < points_.size() && rest > 0; ++built_) {
      if (times_.contains(points_[built_])) continue;
      std::ranges::move(candidate_.solver->kernel_specs(rq_.handle.device(), rq_.problem, points_[built_]),
                        std::back_inserter(programs));
      --rest;
    }
    if (programs.empty()) return;
    try {
      build_kernels(rq_.handle.stream(), programs);
    } catch (const Error&) {  // the point whose program it is will say why
    }
  }

  /// Measures a point and stores the result; infinite when it failed.
  double try_point(const TunePoint& point) {
    MeasuredCandidate measured(rq_, verifier_, at(point), args_);
    const Budget budget =
        within({.total_us = 100e3, .rounds = 4, .best_known_us = best_us_, .give_up_ratio = 1.2}, 0.5);
    const Timing timing = measure(*rq_.clock, {measured.trial()}, budget)[0];
    result_.wrong = measured.wrong();
    Candidate tried = measured.candidate();
    tried.us = timing.us;
    const bool good = timing.state == Timing::State::kMeasured;
    if (timing.state == Timing::State::kOut) tried.us = 0;
    const FindRecord record = record_of(rq_, tried, good ? RecordKind::kTrial : RecordKind::kFailed);
    find_db(rq_.handle.device().architecture).store({&record, 1});
    return times_[point] = good ? timing.us : INFINITY;
  }

  /// Measures the best few again in alternation, since the trials ran at different times; ties keep the order.
  void decide() {
    std::vector<TunePoint> order;
    for (const TunePoint& p : points_)
      if (const auto it = times_.find(p); it != times_.end() && it->second < INFINITY) order.push_back(p);
    std::stable_sort(order.begin(), order.end(),
                     [&](const TunePoint& a, const TunePoint& b) { return times_[a] < times_[b]; });
    order.resize(std::min(order.size(), kFastestPoints));
    if (order.empty()) return;
    std::deque<MeasuredCandidate> measured;
    std::vector<Trial> trials;
    for (const TunePoint& p : order) trials.push_back(measured.emplace_back(rq_, verifier_, at(p), args_).trial());
    const auto timings = measure(*rq_.clock, trials, within(Budget{}, 0));
    std::size_t best = order.size();
    for (std::size_t i = 0; i < order.size(); ++i)
      if (timings[i].state == Timing::State::kMeasured && (best == order.size() || timings[i].us < timings[best].us))
        best = i;
    const bool decided = best < order.size();
    if (!decided) best = 0;  // no time left: the fastest trial
    candidate_ = measured[best].candidate();
    candidate_.us = decided ? timings[best].us : times_[order[0]];
    candidate_.tuned = result_.complete && !narrowed();
  }

  const Request& rq_;
  Verifier& verifier_;
  Candidate& candidate_;
  const void* args_;
  TuneLimits limits_;
  std::vector<TunePoint> points_;
  std::size_t built_ = 0;  // the programs of the points before this one are built
  std::map<TunePoint, double> times_;
  double best_us_ = INFINITY, start_us_ = 0;
  TuneResult result_;
};

}  // namespace

std::vector<TunePoint> tune_points(const Request& rq, const Candidate& start) {
  const auto& device = rq.handle.device();
  const SolverBase& solver = *start.solver;
  std::vector<std::pair<double, TunePoint>> found;
  for (TunePoint& point : valid_points(solver, device, rq.problem)) {
    if (point == start.point) continue;
    if (solver.workspace_size(device, rq.problem, point) > rq.constraints.workspace_limit) continue;
    const double us = solver.estimate(device, rq.problem, point);
    found.emplace_back(us, std::move(point));
  }
  if (found.empty()) return {};
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<TunePoint> points{start.point};
  for (auto& f : found) points.push_back(std::move(f.second));
  return points;
}

std::size_t most_workspace(const Request& rq, const std::vector<Candidate>& candidates, bool tune) {
  std::size_t most = 0;
  for (const auto& c : candidates) {
    most = std::max(most, c.workspace);
    if (!tune) continue;
    for (const auto& p : tune_points(rq, c))
      most = std::max(most, c.solver->workspace_size(rq.handle.device(), rq.problem, p));
  }
  return most;
}

TuneResult tune(const Request& rq, Verifier& verifier, Candidate& candidate, const void* args, const TuneLimits& limits,
                bool again) {
  if (tune_points(rq, candidate).empty() || (candidate.tuned && !again)) return {};
  candidate.tuned = false;
  Search search(rq, verifier, candidate, args, limits);
  if (!again) search.resume();
  return search.run();
}

}  // namespace polymio::search
