// SPDX-License-Identifier: MIT
#include "search/find.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/env.h"
#include "base/log.h"
#include "db/find_db.h"
#include "search/measure.h"

namespace polymio::search {
namespace {

bool is_current(const FindRecord& r, const SolverInfo& info, Stream& stream) {
  return r.solver == info.name && r.solver_version == info.version && r.units == stream.info().units &&
         r.thread_cap == stream.threads();
}

const FindRecord* record_of(const std::vector<FindRecord>& records, const SolverBase& solver, Stream& stream) {
  const SolverInfo info = solver.info();
  const auto it =
      std::find_if(records.begin(), records.end(), [&](const FindRecord& r) { return is_current(r, info, stream); });
  return it == records.end() ? nullptr : &*it;
}

Candidate candidate(const Request& rq, const SolverBase& solver, const FindRecord* record) {
  const auto& device = rq.handle.device();
  Candidate c{&solver, solver.default_point(device, rq.problem), 0, 0, false};
  if (record) {
    const TunePoint stored = parse_tune_point(record->tune_point);
    if (stored.size() == c.point.size() && solver.is_valid(device, rq.problem, stored)) c.point = stored;
  }
  c.workspace = solver.workspace_size(device, rq.problem, c.point);
  c.us = record ? record->time_us : solver.estimate(device, rq.problem, c.point);
  c.measured = record && record->measured;
  return c;
}

/// Fastest first; equal times keep the order of the list; the reference solver comes last.
void sort(std::vector<Candidate>& candidates) {
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    const bool ra = a.solver->info().reference, rb = b.solver->info().reference;
    return ra != rb ? rb : a.us < b.us;
  });
}

/// Builds what can be built: a candidate whose preparation fails (for want of memory, say) is left out,
/// unless none is left.
std::vector<AnyInvoker> build_all(const Request& rq, std::vector<Candidate>& candidates) {
  std::vector<AnyInvoker> invokers;
  for (auto it = candidates.begin(); it != candidates.end();) {
    try {
      invokers.push_back(it->solver->build(rq.handle.stream(), rq.problem, it->point));
      ++it;
    } catch (const std::exception& e) {
      log::info("find: {} leaves the search: {}", it->solver->info().name, e.what());
      if (candidates.size() == 1) throw;
      it = candidates.erase(it);
    }
  }
  return invokers;
}

std::vector<Candidate> run_all(const Request& rq, std::vector<Candidate> candidates, const void* args) {
  Stream& stream = rq.handle.stream();
  const auto invokers = build_all(rq, candidates);
  std::vector<std::function<void()>> contestants;
  for (const auto& invoke : invokers)
    contestants.push_back([&stream, &invoke, args] {
      invoke(stream, args);
      stream.synchronize();
    });
  const auto timings = measure(steady_clock(), contestants, Budget{});
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    candidates[i].us = timings[i].median_us;
    candidates[i].measured = true;
    log::detail("find: {} takes {:.1f} us ({} samples)", candidates[i].solver->info().name, timings[i].median_us,
                timings[i].samples);
  }
  return candidates;
}

void store(const Request& rq, const std::vector<Candidate>& candidates) {
  std::vector<FindRecord> records;
  const std::string key = rq.problem.key();
  for (const auto& c : candidates) {
    const SolverInfo info = c.solver->info();
    records.push_back({key, info.name, info.version, c.us, c.workspace, to_text(c.point), rq.handle.device().units,
                       rq.handle.stream().threads(), c.measured});
  }
  find_db(rq.handle.device().architecture).store(records);
}

}  // namespace

const char* name_of(Source s) {
  switch (s) {
    case Source::kDatabase:
      return "database";
    case Source::kMeasured:
      return "measured";
    case Source::kEstimate:
      return "estimate";
  }
  return "unknown";
}

Ranking rank(const Request& rq) {
  const auto records = find_db(rq.handle.device().architecture).lookup(rq.problem.key());
  Ranking ranking;
  bool complete = true;
  for (const SolverBase* solver : rq.solvers) {
    if (!admit(*solver, rq.handle.device(), rq.problem, rq.constraints)) continue;
    const FindRecord* record = record_of(records, *solver, rq.handle.stream());
    complete = complete && record;
    const Candidate c = candidate(rq, *solver, record);
    if (c.workspace <= rq.constraints.workspace_limit) ranking.candidates.push_back(c);
  }
  sort(ranking.candidates);
  if (complete && !ranking.candidates.empty()) ranking.source = Source::kDatabase;
  return ranking;
}

Ranking find(const Request& rq, const void* args) {
  Ranking ranking = rank(rq);
  // A prediction may stand for a solver that another one beats, never for the answer itself.
  const bool hit =
      ranking.source == Source::kDatabase && ranking.candidates[0].measured && !env::flag(env::kDisableFindDb, false);
  if (hit || ranking.candidates.empty()) return ranking;
  std::vector<Candidate> run, skipped;
  for (const auto& c : ranking.candidates) (c.solver->info().reference && !run.empty() ? skipped : run).push_back(c);
  run = run_all(rq, std::move(run), args);
  run.insert(run.end(), skipped.begin(), skipped.end());
  sort(run);
  store(rq, run);
  return {std::move(run), Source::kMeasured};
}

std::vector<Candidate> best_per_algorithm(const std::vector<Candidate>& candidates) {
  std::vector<Candidate> best;
  for (const auto& c : candidates) {
    const Algorithm algorithm = c.solver->info().algorithm;
    if (std::none_of(best.begin(), best.end(),
                     [&](const Candidate& b) { return b.solver->info().algorithm == algorithm; }))
      best.push_back(c);
  }
  return best;
}

std::string refusals(const Request& rq) {
  std::string text;
  for (const SolverBase* solver : rq.solvers) {
    const Verdict v = admit(*solver, rq.handle.device(), rq.problem, rq.constraints);
    if (!v) text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", solver->info().name, v.text());
  }
  return text;
}

}  // namespace polymio::search
