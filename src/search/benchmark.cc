// SPDX-License-Identifier: MIT
#include "search/benchmark.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "base/process_mutex.h"

namespace polymio::search {
namespace {

/// Runs to completion, or stops after `most_us`.
Run run_once(Stream& stream, const AnyInvoker& invoke, const void* args, double most_us) {
  using Time = std::chrono::steady_clock;
  try {
    std::optional<StopAt> stop;
    constexpr double kYearUs = 3e13;
    if (most_us < kYearUs) stop.emplace(Time::now() + std::chrono::microseconds(static_cast<std::int64_t>(most_us)));
    invoke(stream, args);  // on a GPU the clock synchronizes
    return Run::kDone;
  } catch (const Stopped&) {
    return Run::kStopped;
  }
}

// Most bytes of private data for a check: one image of nearly every problem; less under a find budget.
constexpr std::size_t kMostPrivate = std::size_t{256} << 20, kMostPrivateInBudget = std::size_t{4} << 20;

/// Quarantined solvers of this process (family, name, version), for when the database is switched off.
using Wrong = std::tuple<std::string, std::string, int>;
ProcessMutex wrong_solvers_mutex;
std::set<Wrong>& wrong_solvers() {
  static auto& all = *new std::set<Wrong>;
  return all;
}

}  // namespace

FindRecord record_of(const Request& rq, const Candidate& c, RecordKind kind) {
  const SolverInfo info = c.solver->info();
  const auto& device = rq.handle.device();
  return {rq.problem.key(),       info.name,        info.version,   c.us, c.workspace,
          to_text(c.point),       device.units,     device.threads, kind, rq.problem.family(),
          rq.problem.log_sizes(), rq.problem.work()};
}

void store(const Request& rq, const std::vector<Candidate>& candidates) {
  std::vector<FindRecord> records;
  for (const auto& c : candidates) {
    const bool measured = c.source == Source::kMeasured;
    records.push_back(record_of(rq, c,
                                !measured ? RecordKind::kPredicted
                                : c.tuned ? RecordKind::kTuned
                                          : RecordKind::kMeasured));
  }
  // Under a find budget do not wait for the file lock: the records are written with later ones.
  const std::chrono::milliseconds patience(rq.handle.find_budget_us() > 0 ? 1 : 2000);
  find_db(rq.handle.device().architecture).store(records, patience);
}

bool gave_wrong_result(const SolverInfo& info, const std::string& family) {
  const std::scoped_lock lock(wrong_solvers_mutex);
  return wrong_solvers().contains({family, info.name, info.version});
}

Verifier::Verifier(const Request& rq, const void* args, std::size_t workspace, Data data)
    : rq_(rq), args_(args), workspace_(workspace), data_(data) {}

void Verifier::before() {
  if (rq_.check) rq_.check->poison(rq_.handle.stream(), args_);
}

bool Verifier::accept(const Candidate& c) {
  if (!rq_.check || c.solver->info().reference) return true;
  std::string text;
  CheckResult outcome = rq_.check->check(rq_.handle.stream(), args_, {*c.solver, rq_.problem}, text);
  const ProblemBase* checked = &rq_.problem;
  if (outcome == CheckResult::kInconclusive && data_ == Data::kPrivateToo) {
    outcome = check_private(c, text);
    if (case_) checked = &case_->problem();
  }
  if (outcome == CheckResult::kWrong) quarantine(c, *checked, text);
  return outcome != CheckResult::kWrong;
}

/// Checks a run on private random data, if they fit the workspace limit: the check of the caller's was inconclusive.
CheckResult Verifier::check_private(const Candidate& c, std::string& text) try {
  Handle& handle = rq_.handle;
  const std::size_t limit = handle.workspace_limit();
  const std::size_t most = handle.find_budget_us() > 0 ? kMostPrivateInBudget : kMostPrivate;
  if (!std::exchange(case_tried_, true) && limit > workspace_)
    case_ = rq_.check->private_case(handle, std::min(limit - workspace_, most));
  const SolverInfo info = c.solver->info();
  if (!case_) {
    log::info("{}: the result of {} is not verified: {}; the workspace limit of {} bytes leaves no room for other data",
              rq_.problem.key(), info.name, text, limit);
    return CheckResult::kInconclusive;
  }
  const ProblemBase& problem = case_->problem();
  const auto& device = handle.device();
  if (!c.solver->is_applicable(device, problem)) return CheckResult::kInconclusive;
  const TunePoint point =
      takes(*c.solver, device, problem, c.point) ? c.point : c.solver->default_point(device, problem);
  const std::size_t bytes = c.solver->workspace_size(device, problem, point);
  if (bytes > workspace_) return CheckResult::kInconclusive;
  const Memory workspace(handle, bytes);
  const void* args = case_->args(workspace.data(), bytes);
  const AnyInvoker invoke = c.solver->build(handle.stream(), problem, point);
  case_->check().poison(handle.stream(), args);
  run_once(handle.stream(), invoke, args, INFINITY);
  return case_->check().check(handle.stream(), args, {*c.solver, problem}, text);
} catch (const Error& e) {
  if (e.status != Status::kAllocFailed) throw;
  log::info("{}: the result of {} is not verified: {}", rq_.problem.key(), c.solver->info().name, e.what());
  return CheckResult::kInconclusive;
}

void Verifier::quarantine(const Candidate& c, const ProblemBase& problem, const std::string& text) {
  const SolverInfo info = c.solver->info();
  log::warn_once(rq_.problem.family() + info.name,
                 "{} gave a wrong result ({}) and is not used any more for this kind of problem. To reproduce: "
                 "MIOPEN_DEBUG_DISABLE_FIND_DB=1 MIOpenDriver {} -S {} -V 1",
                 info.name, text, problem.key(), info.id);
  if (env::flag(env::kDisableFindDb, false)) {
    const std::scoped_lock lock(wrong_solvers_mutex);
    wrong_solvers().insert({rq_.problem.family(), info.name, info.version});
  }
  rq_.handle.plans().drop(*c.solver);
  const FindRecord record = record_of(rq_, c, RecordKind::kQuarantined);
  find_db(rq_.handle.device().architecture).store({&record, 1});
}

MeasuredCandidate::MeasuredCandidate(const Request& rq, Verifier& verifier, Candidate candidate, const void* args)
    : rq_(rq), verifier_(verifier), candidate_(std::move(candidate)), args_(args) {}

Trial MeasuredCandidate::trial() {
  return {[this](double most_us, double& warm_us) { return start(most_us, warm_us); },
          [this](double most_us) { return run(most_us); }, candidate_.us};
}

Run MeasuredCandidate::start(double most_us, double& warm_us) {
  try {
    if (!invoker_) invoker_ = candidate_.solver->build(rq_.handle.stream(), rq_.problem, candidate_.point);
    verifier_.before();
    const double before = rq_.clock->now_us();
    const Run ended = run_once(rq_.handle.stream(), invoker_, args_, most_us);
    warm_us = rq_.clock->now_us() - before;
    if (ended != Run::kDone || verifier_.accept(candidate_)) return ended;
    note_ = "gave a wrong result";
    wrong_ = true;
  } catch (const std::exception& e) {
    note_ = e.what();
    log::info("{}: {} leaves the search: {}", rq_.problem.key(), candidate_.solver->info().name, note_);
  }
  return Run::kOut;
}

Run MeasuredCandidate::run(double most_us) {
  try {
    return run_once(rq_.handle.stream(), invoker_, args_, most_us);
  } catch (const std::exception& e) {
    note_ = e.what();
    return Run::kOut;
  }
}

}  // namespace polymio::search
