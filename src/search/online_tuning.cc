// SPDX-License-Identifier: MIT
#include "search/online_tuning.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>

#include "base/error.h"
#include "base/log.h"
#include "search/benchmark.h"
#include "search/bandit.h"
#include "search/tune.h"

namespace polymio::search {
namespace {

constexpr std::size_t kPointsPerSolver = 3, kMostArms = 8;
constexpr double kUntried = 1.01;  // unmeasured solvers are stored with at least this many times the fastest time

class OnlineTuning {
 public:
  OnlineTuning(Handle& handle, Subject subject)
      : subject_(std::move(subject)),
        request_{handle, subject_.solvers, *subject_.problem, subject_.constraints, subject_.check.get()} {
    for (const Candidate& c : rank(request_)) {
      if (c.solver->info().reference && !arms_.empty()) {
        last_resort_.candidate = c;
        continue;
      }
      add(c);
      if (!c.tuned) add_points(c);
    }
    if (arms_.empty()) fail(Status::kNotImplemented, "no solver can do: {}", request_.problem.key());
    std::stable_sort(arms_.begin(), arms_.end(),
                     [](const Arm& a, const Arm& b) { return a.candidate.us < b.candidate.us; });
    if (arms_.size() > kMostArms) arms_.erase(arms_.begin() + kMostArms, arms_.end());
    std::vector<double> predicted;
    for (const Arm& arm : arms_) predicted.push_back(arm.candidate.us);
    explorer_ = std::make_unique<Bandit>(predicted);
    for (const Arm& arm : arms_) workspace_ = std::max(workspace_, arm.candidate.workspace);
  }

  std::size_t workspace() const { return workspace_; }

  void run(Stream& stream, const void* args) {
    if (const Arm* fastest = fastest_.load(std::memory_order_acquire)) return fastest->invoke(stream, args);
    const std::scoped_lock lock(mutex_);  // one at a time: concurrent calls would disturb the measurement
    while (lost_ < arms_.size()) {
      const std::size_t i = explorer_->next();
      if (ready(i) && run_candidate(i, stream, args)) return;
    }
    if (!last_resort_.candidate.solver) fail(Status::kInternalError, "no solver works for: {}", request_.problem.key());
    if (!last_resort_.invoke) build(last_resort_);
    last_resort_.invoke(stream, args);
  }

 private:
  struct Arm {
    Candidate candidate;
    AnyInvoker invoke{};
    bool checked = false;
  };

  void add(const Candidate& c) { arms_.push_back({c}); }

  void build(Arm& arm) {
    arm.invoke = arm.candidate.solver->build(request_.handle.stream(), request_.problem, arm.candidate.point);
  }

  /// Adds the solver's best predicted tune points; their times are scaled by the candidate's own.
  void add_points(const Candidate& c) {
    const auto points = tune_points(request_, c);
    const auto& device = request_.handle.device();
    const double own = c.solver->estimate(device, request_.problem, c.point);
    for (std::size_t i = 1; i < std::min(points.size(), kPointsPerSolver + 1); ++i) {
      Candidate other = c;
      other.point = points[i];
      other.tuned = true;  // so that its record means a chosen point, not a default that lacked workspace
      other.workspace = c.solver->workspace_size(device, request_.problem, other.point);
      other.us = c.us * c.solver->estimate(device, request_.problem, other.point) / std::max(own, 1e-3);
      add(other);
    }
  }

  /// Builds the arm; false when that fails: the arm is discarded.
  bool ready(std::size_t i) {
    Arm& arm = arms_[i];
    if (arm.invoke) return true;
    try {
      build(arm);
      return true;
    } catch (const std::exception& e) {
      log::info("{}: {} leaves the search: {}", request_.problem.key(), arm.candidate.solver->info().name, e.what());
      explorer_->discard(i);
      ++lost_;
      return false;
    }
  }

  /// False when the result was wrong and has to be computed again.
  bool run_candidate(std::size_t i, Stream& stream, const void* args) {
    Arm& arm = arms_[i];
    Verifier verifier(request_, args, arm.candidate.workspace, Verifier::Data::kCallersOnly);
    if (!arm.checked) verifier.before();
    const double before = request_.clock->now_us();
    arm.invoke(stream, args);
    stream.synchronize();
    const double us = request_.clock->now_us() - before;
    if (!arm.checked && !verifier.accept(arm.candidate)) {
      explorer_->discard(i);
      ++lost_;
      return false;
    }
    arm.checked = true;
    explorer_->took(i, us);
    if (explorer_->settled()) settle();
    return true;
  }

  /// Stores the best point of every solver, so that the next process has a database hit.
  void settle() {
    const std::size_t best = explorer_->best();
    std::vector<Candidate> learned;
    for (Candidate c : rank(request_)) {
      c.source = Source::kEstimate;
      c.us = std::max(c.us, kUntried * explorer_->us(best));
      for (std::size_t i = 0; i < arms_.size(); ++i) {
        if (arms_[i].candidate.solver != c.solver || !explorer_->measured(i)) continue;
        if (c.source == Source::kMeasured && explorer_->us(i) >= c.us) continue;
        c = arms_[i].candidate;
        c.us = explorer_->us(i);
        c.source = Source::kMeasured;
      }
      learned.push_back(std::move(c));
    }
    store(request_, learned);
    log::info("{}: {} is the fastest of {} candidates, {:.1f} us", request_.problem.key(),
              arms_[best].candidate.solver->info().name, arms_.size(), explorer_->us(best));
    fastest_.store(&arms_[best], std::memory_order_release);
  }

  Subject subject_;
  Request request_;
  std::vector<Arm> arms_;
  Arm last_resort_{};  // the reference solver: runs when all arms failed
  std::unique_ptr<Bandit> explorer_;
  std::size_t workspace_ = 0, lost_ = 0;
  std::mutex mutex_;
  std::atomic<const Arm*> fastest_{nullptr};  // once it is known
};

}  // namespace

AnyInvoker tune_online(Handle& handle, Subject subject, std::size_t& workspace) {
  const auto tuning = std::make_shared<OnlineTuning>(handle, std::move(subject));
  workspace = tuning->workspace();
  return [tuning](Stream& stream, const void* args) { tuning->run(stream, args); };
}

}  // namespace polymio::search
