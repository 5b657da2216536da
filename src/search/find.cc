// Find: its modes, database hits, the measurement of candidates, tuning on request, the time budget.
// SPDX-License-Identifier: MIT
#include "search/find.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <utility>

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "db/find_db.h"
#include "db/key_lock.h"
#include "search/calibrate.h"
#include "search/benchmark.h"
#include "search/model.h"
#include "search/settings.h"
#include "search/tune.h"

namespace polymio::search {
namespace {

thread_local std::string report;

class Finder {
 public:
  Finder(const Request& rq, const FindOptions& options, const void* args)
      : rq_(rq),
        options_(options),
        args_(args),
        start_us_(rq.clock->now_us() - options.spent_us),
        budget_us_(rq.handle.find_budget_us()),
        forced_(options.forced.value_or(enforce(rq.handle))) {
    if (forced_ != Enforce::kNone) options_.mode = FindMode::kNormal;
    if (options_.mode == FindMode::kReserved) options_.mode = FindMode::kNormal;
    // Without a database there is nothing to trust.
    if (trusts(options_.mode) && env::flag(env::kDisableFindDb, false)) options_.mode = FindMode::kDynamicHybrid;
    again_ = options_.tune && (forced_ == Enforce::kDbUpdate || forced_ == Enforce::kSearchDbUpdate);
    if (forced_ == Enforce::kSearch) options_.tune = true;
    if (forced_ == Enforce::kSearchDbUpdate) options_.tune = again_ = true;
    if (forced_ == Enforce::kDbClean) options_.tune = false;
  }

  /// Searches with tuning; the find mode and the find budget do not apply.
  TunedAll tune_all(double budget_us, bool again) {
    budget_us_ = 0;
    tuning_us_ = budget_us > 0 ? budget_us : INFINITY;
    again_ = again;
    report.clear();
    const KeyLock lock = wait_for_others();
    outcome_.candidates = search(considered());
    return outcome_;
  }

  std::vector<Candidate> find() {
    auto candidates = answer();
    if (limited()) calibrate_later(rq_.handle);
    return candidates;
  }

  std::optional<std::vector<Candidate>> answer_without_running(const char* reason) {
    auto candidates = reason ? cleaned() : considered();
    if (!candidates.empty() && !answered(candidates)) {
      if (!reason) return std::nullopt;
      say("nothing measured: {}", reason);
    }
    if (limited()) calibrate_later(rq_.handle);
    return candidates;
  }

 private:
  /// The ranking that a find starts from; DB_CLEAN erases the candidates' records first.
  std::vector<Candidate> cleaned() const {
    report.clear();
    auto candidates = considered();
    if (candidates.empty() || forced_ != Enforce::kDbClean) return candidates;
    erase(candidates);
    return considered();
  }

  std::vector<Candidate> answer() {
    std::vector<Candidate> candidates = cleaned();
    if (candidates.empty() || answered(candidates)) return candidates;
    const KeyLock lock = wait_for_others();
    candidates = considered();  // another process may have stored the answer
    if (candidates.empty() || answered(candidates)) return candidates;
    if (!trusts(options_.mode)) return search(std::move(candidates));
    if (auto verified = verify(candidates)) return {*std::move(verified)};
    options_.tune = again_ = true;
    skipped_.clear();
    candidates = considered();  // the verification may have quarantined a solver
    // Records that were not verified are no longer trusted: what is not measured now must not become the user's.
    for (Candidate& c : candidates) {
      c.current = false;
      c.source = std::min(c.source, Source::kNeighbour);
    }
    return search(std::move(candidates));
  }

  /// Measures the best two of the records, which are not the user's, else of the predictions. The fastest one, stored
  /// with the other, if that confirms what was known: the best record's time, or the order of the predictions.
  std::optional<Candidate> verify(const std::vector<Candidate>& candidates) {
    const auto recorded = [](const Candidate& c) { return c.current && c.source == Source::kMeasured; };
    const bool records = std::ranges::any_of(candidates, recorded);
    std::vector<Candidate> first;
    for (const Candidate& c : candidates) {
      const bool usable = records ? recorded(c) : searched(c) && (first.empty() || !c.solver->info().reference);
      if (usable && first.size() < 2) first.push_back(c);
    }
    if (first.empty()) return std::nullopt;
    if (records) log::info("{} {}", kKeyMatch, rq_.problem.key());
    if (!records)
      for (Candidate& c : first) start_at_predicted_point(c);
    const Candidate expected = first[0];
    Verifier verifier(rq_, args_, most_workspace(rq_, first, false));
    auto found = measure_candidates(verifier, std::move(first));
    std::erase_if(found, [](const Candidate& c) { return c.current || c.source != Source::kMeasured; });
    if (found.empty()) return std::nullopt;
    sort(found);
    const Candidate& best = found[0];
    const bool good = records ? best.us <= expected.us * verify_slack() : best.solver == expected.solver;
    say("{} {}: {} {:.1f} us, {} {:.1f} us", good ? "verified" : "refuted", records ? "the database" : "the prediction",
        expected.solver->info().name, expected.us, best.solver->info().name, best.us);
    if (!good) return std::nullopt;
    store(rq_, found);
    return best;
  }

  double tuning_left_us() const { return tuning_us_ - (rq_.clock->now_us() - start_us_); }
  bool limited() const { return budget_us_ > 0; }
  double left_us() const { return limited() ? budget_us_ - (rq_.clock->now_us() - start_us_) : INFINITY; }

  /// The ranking, reduced to options_.only.
  std::vector<Candidate> considered() const {
    auto candidates = rank(rq_);
    if (options_.only.empty()) return candidates;
    std::erase_if(candidates, [&](const Candidate& c) {
      return std::find(options_.only.begin(), options_.only.end(), c.solver) == options_.only.end();
    });
    return candidates;
  }

  /// True if nothing has to run; then `candidates` holds the answer.
  bool answered(std::vector<Candidate>& candidates) {
    const bool database = !env::flag(env::kDisableFindDb, false);
    const Candidate* const stored = database ? answer_of_database(rq_, candidates, options_.mode) : nullptr;
    if (stored || options_.mode == FindMode::kFast) {
      const char* why = stored ? "from the database" : "FAST: nothing measured";
      if (stored) log::info("{} {}", kKeyMatch, rq_.problem.key());
      candidates = {stored ? *stored : candidates[0]};
      report = fmt::format("{}: {} {:.1f} us", why, candidates[0].solver->info().name, candidates[0].us);
      return true;
    }
    if (options_.mode != FindMode::kNormal || options_.tune || forced_ != Enforce::kNone || !database) return false;
    // NORMAL repeats a search that another handle made.
    if (!is_hit(candidates, FindMode::kHybrid) || !rq_.handle.searched(rq_.problem.key())) return false;
    report = "searched by this handle before";
    return true;
  }

  /// Erases the candidates' records in the user's database.
  void erase(const std::vector<Candidate>& candidates) const {
    std::vector<FindRecord> erased;
    for (const auto& c : candidates) erased.push_back(record_of(rq_, c, RecordKind::kErased));
    find_db(rq_.handle.device().architecture).store(erased);
  }

  /// One search per problem at a time on this machine; others wait for its result, at most 30 s or a tenth of the
  /// budget.
  KeyLock wait_for_others() const {
    const std::string file = find_db(rq_.handle.device().architecture).path();
    const double patience_ms = std::min(30e3, 0.1e-3 * left_us());
    const std::filesystem::path path(file);
    return {file.empty() ? std::filesystem::path() : path.parent_path(),
            path.filename().string() + " " + rq_.problem.key(),
            std::chrono::milliseconds(static_cast<std::int64_t>(std::max(patience_ms, 0.0)))};
  }

  bool searched(const Candidate& c) const { return searches(options_.mode, c); }

  std::vector<Candidate> search(std::vector<Candidate> candidates) {
    std::vector<Candidate> run, rest;
    for (auto& c : candidates) {
      // The reference solver is not measured if there is any other candidate.
      const bool skip = (c.solver->info().reference && !run.empty()) || !searched(c) || (limited() && c.current);
      (skip ? rest : run).push_back(std::move(c));
    }
    if (run.empty()) run.swap(rest);  // the mode would measure none: measure all rather than fail
    for (auto& c : run) start_at_predicted_point(c);
    Verifier verifier(rq_, args_, most_workspace(rq_, run, options_.tune));
    if (options_.tune) std::erase_if(run, [&](Candidate& c) { return !cancelled_ && !tune_one(verifier, c); });
    outcome_.complete = outcome_.complete && !cancelled_;
    auto found = measure_candidates(verifier, std::move(run));
    if (found.empty()) found = measure_candidates(verifier, std::exchange(rest, {}));
    if (found.empty())
      fail(Status::kInternalError, "no solver works for: {}. Reasons: {}", rq_.problem.key(), reasons_);
    std::erase_if(rest, [&](const Candidate& c) { return !searched(c); });
    found.insert(found.end(), std::make_move_iterator(rest.begin()), std::make_move_iterator(rest.end()));
    std::vector<Candidate> fresh;
    std::copy_if(found.begin(), found.end(), std::back_inserter(fresh),
                 [&](const Candidate& c) { return !skipped(c) && !(limited() && c.current); });
    store(rq_, fresh);
    rq_.handle.set_searched(rq_.problem.key());
    sort(found);
    return found;
  }

  /// Without a record: starts at the tune point that the learned model predicts to be the fastest.
  void start_at_predicted_point(Candidate& c) const {
    const auto& device = rq_.handle.device();
    const Model* model = c.source <= Source::kModel && !c.current && !limited() ? learned_model(device) : nullptr;
    const auto point =
        model ? model->point(device, rq_.problem, *c.solver, rq_.constraints.workspace_limit) : std::nullopt;
    const std::size_t bytes = point ? c.solver->workspace_size(device, rq_.problem, *point) : 0;
    // A record with less workspace than the default point would not count as current.
    if (!point || bytes < c.workspace) return;
    c.point = *point;
    c.workspace = bytes;
  }

  bool skipped(const Candidate& c) const {
    return std::find(skipped_.begin(), skipped_.end(), c.solver) != skipped_.end();
  }

  /// False when a result of the solver is wrong.
  bool tune_one(Verifier& verifier, Candidate& c) {
    TuneLimits limits = tune_limits(options_.mode == FindMode::kTrustVerify);
    limits.time_us = std::min(limits.time_us, tuning_left_us());
    if (limited()) limits.time_us = std::min(limits.time_us, 0.4 * left_us());
    limits.strict = limited() || tuning_us_ < INFINITY;
    const TuneResult tuned = tune(rq_, verifier, c, args_, limits, again_);
    outcome_.complete = outcome_.complete && tuned.complete;
    outcome_.measured += tuned.measured;
    if (tuned.measured)
      say("tuned {} over {} candidates{}", c.solver->info().name, tuned.measured,
          tuned.complete ? "" : ", not finished");
    cancelled_ = tuned.cancelled;
    if (tuned.wrong) say("{} is out: a point gave a wrong result", c.solver->info().name);
    return !tuned.wrong;
  }

  /// Measures the candidates. Those that fail are left out; those that do not fit the budget keep their predictions.
  std::vector<Candidate> measure_candidates(Verifier& verifier, std::vector<Candidate> run) {
    std::deque<MeasuredCandidate> measured;
    std::vector<Trial> trials;
    for (auto& c : run) trials.push_back(measured.emplace_back(rq_, verifier, c, args_).trial());
    Budget budget;
    if (limited()) budget = {.total_us = std::max(left_us() - kReserveUs - kReserve * budget_us_, 0.0), .strict = true};
    // Within tuning, measure only for the rest of its time.
    if (tuning_us_ < INFINITY) budget = {.total_us = std::max(tuning_left_us(), 0.0), .strict = true};
    if (cancelled_) budget = {.total_us = 0, .strict = true};
    const auto timings = measure(*rq_.clock, trials, budget);
    std::vector<Candidate> result;
    for (std::size_t i = 0; i < measured.size(); ++i) {
      Candidate c = measured[i].candidate();
      const char* name = c.solver->info().name;
      switch (timings[i].state) {
        case Timing::State::kMeasured:
          c.us = timings[i].us;
          c.source = Source::kMeasured;
          c.current = false;  // newer than the record
          say("measured {} {:.1f} us ({} samples)", name, c.us, timings[i].samples);
          break;
        case Timing::State::kStopped:
          say("stopped {} after {:.1f} us", name, timings[i].us);
          c.us = std::max(c.us, timings[i].us);
          c.source = Source::kEstimate;
          break;
        case Timing::State::kSkipped:
          say("skipped {}: twice its prediction of {:.1f} us does not fit the {:.1f} us left", name, c.us,
              timings[i].us);
          if (c.source != Source::kMeasured) skipped_.push_back(c.solver);
          break;
        case Timing::State::kOut:
          say("{} is out: {}", name, measured[i].note());
          reasons_ += fmt::format("{}{}: {}", reasons_.empty() ? "" : "; ", name, measured[i].note());
          continue;
      }
      result.push_back(std::move(c));
    }
    return result;
  }

  template <class... Args>
  void say(fmt::format_string<Args...> text, Args&&... args) {
    const std::string line = fmt::format(text, std::forward<Args>(args)...);
    log::detail("find: {}", line);
    report += (report.empty() ? "" : "; ") + line;
  }

  // Part of a budget reserved for storing the results, building the plan and finishing the task that is running when
  // the time is over: microseconds, and a share of the budget.
  static constexpr double kReserveUs = 500, kReserve = 0.2;
  // The log line of a record that is used, which scripts expect to be MIOpen's.
  static constexpr const char* kKeyMatch = "Key match:";

  const Request& rq_;
  FindOptions options_;
  const void* args_;
  double start_us_;
  double budget_us_;
  Enforce forced_;
  double tuning_us_ = INFINITY;  // for all solvers together
  bool again_ = false, cancelled_ = false;
  TunedAll outcome_;
  std::vector<const SolverBase*> skipped_;
  std::string reasons_;
};

/// Whether every candidate is tuned already or has nothing to tune.
bool all_tuned(const Request& rq, const std::vector<Candidate>& candidates) {
  return is_hit(candidates, FindMode::kHybrid) && std::all_of(candidates.begin(), candidates.end(), [&](const auto& c) {
           return c.tuned || c.solver->info().reference || tune_points(rq, c).empty();
         });
}

}  // namespace

TunedAll tune_all(const Request& rq, const TuneAll& options) {
  TunedAll known{rank(rq)};
  if (known.candidates.empty() || (!options.again && all_tuned(rq, known.candidates))) return known;
  const std::size_t bytes = most_workspace(rq, known.candidates, true);
  const std::size_t limit = rq.handle.workspace_limit();
  const auto data = bytes < limit ? rq.check->private_case(rq.handle, limit - bytes) : nullptr;
  if (!data || !data->problem().equals(rq.problem))
    fail(Status::kBadParm, "the workspace limit of {} bytes has no room for the tensors of: {}", limit,
         rq.problem.key());
  const Memory workspace(rq.handle, bytes);
  Request own = rq;
  own.check = &data->check();
  return Finder(own, {FindMode::kNormal, true, Enforce::kNone}, data->args(workspace.data(), bytes))
      .tune_all(options.budget_us, options.again);
}

const std::string& last_report() { return report; }

std::vector<Candidate> find(const Request& rq, const FindOptions& options, const void* args) {
  return Finder(rq, options, args).find();
}

std::optional<std::vector<Candidate>> answer(const Request& rq, const FindOptions& options, const char* reason) {
  return Finder(rq, options, nullptr).answer_without_running(reason);
}

}  // namespace polymio::search
