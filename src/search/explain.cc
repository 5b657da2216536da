// JSON reports: the ranking of all solvers for one problem (explain), and why the database misses it (diagnose).
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/env.h"
#include "base/json_text.h"
#include "core/arithmetic.h"
#include "core/kernel_builder.h"
#include "db/find_db.h"
#include "search/find.h"
#include "search/model.h"

namespace polymio::search {
namespace {

const char* name_of(ErrorClass e) {
  switch (e) {
    case ErrorClass::kExact: return "exact";
    case ErrorClass::kAccurate: return "accurate";
    case ErrorClass::kReduced: return "reduced";
    case ErrorClass::kApproximate: return "approximate";
  }
  return "unknown";
}

std::string describe(const Request& rq, const SolverBase& solver, const std::vector<Candidate>& ranking) {
  const SolverInfo info = solver.info();
  const auto& device = rq.handle.device();
  JsonObject j;
  j.add("name", info.name)
      .add("id", info.id)
      .add("algorithm", info.method)
      .add("version", info.version)
      .add("reference", info.reference)
      .add("dynamic", info.dynamic)
      .add("deterministic", info.deterministic);
  const Verdict verdict = admit(solver, device, rq.problem, rq.constraints);
  const auto it = std::find_if(ranking.begin(), ranking.end(), [&](const Candidate& c) { return c.solver == &solver; });
  j.add("applicable", verdict && it != ranking.end());
  if (!verdict || it == ranking.end()) return j.add("reason", verdict ? kQuarantined : verdict.text()).text();
  const bool measured = it->source == Source::kMeasured;
  j.add("source", name_of(it->source))
      .add("predicted_us", measured ? solver.estimate(device, rq.problem, it->point) : it->us)
      .add("measured_us", measured ? it->us : NAN)
      .add("workspace", it->workspace)
      .add("error_class", name_of(solver.error_class(rq.problem)))
      .add("tune_point", to_text(it->point))
      .add("tuned", it->tuned);
  if (const auto* named = dynamic_cast<const NamesArithmetic*>(&solver)) j.add("arithmetic", named->arithmetic());
  if (device.kind == DeviceKind::kCpu) return j.text();
  JsonArray spills;
  const auto notes = spill_notes(rq.handle.stream(), solver.kernel_specs(device, rq.problem, it->point));
  for (const auto& note : notes) spills.add(note);
  if (!notes.empty()) j.add_raw("spills", spills.text());
  return j.text();
}

/// Where the choice comes from: "database" when every allowed solver has a record.
std::string source_of(const std::vector<Candidate>& ranking) {
  if (is_hit(ranking, FindMode::kHybrid)) return "database";
  return ranking.empty() ? "" : name_of(ranking[0].source);
}

/// The learned model as JSON: whether it applies, and its confidence that the first of two predictions is faster.
std::string learned(const Request& rq, const std::vector<Candidate>& ranking) {
  std::string reason;
  const Model* model = learned_model(rq.handle.device(), &reason);
  const auto prediction = model ? model->predict(rq.handle.device(), rq.problem, rq.solvers) : nullptr;
  if (prediction) reason = prediction->declined;
  JsonObject j;
  j.add("applies", reason.empty());
  if (!reason.empty()) j.add("reason", reason);
  const bool chose = reason.empty() && !ranking.empty() && ranking[0].source == Source::kModel;
  if (!chose) return j.text();
  const bool second = ranking.size() > 1 && !ranking[1].solver->info().reference;
  const double lead =
      second ? std::log(ranking[1].us / ranking[0].us) / std::max(prediction->log_error, 1e-6) : INFINITY;
  return j.add("confidence", 0.5 * std::erfc(-lead / std::sqrt(2.0))).text();
}

struct Miss {
  std::string why, advice;  // empty: the database answers
};

/// Why the record of a solver cannot be used, and what to do about it.
Miss unusable(const Request& rq, const SolverInfo& info, const FindRecord& r) {
  const auto& device = rq.handle.device();
  if (r.solver_version != info.version)
    return {fmt::format("{} is version {}, its record is of version {}", info.name, info.version, r.solver_version),
            "run find again: only this solver is measured again"};
  if (r.units != device.units || r.thread_cap != device.threads)
    return {fmt::format("{} was measured with {} of {} cores, now it is {} of {}", info.name, r.thread_cap, r.units,
                        device.threads, device.units),
            "run find with these threads"};
  return {fmt::format("the record of {} does not fit: its point '{}' takes {} bytes of workspace, the limit is {}",
                      info.name, r.tune_point, r.workspace, rq.constraints.workspace_limit),
          "allow the workspace, or run find again within the limit"};
}

/// Why the problem misses the database, and what to do about it.
Miss miss(const Request& rq, const std::vector<Candidate>& ranking) {
  if (ranking.empty()) return {"no solver can do it: " + refusals(rq), "change the problem or its constraints"};
  if (env::flag(env::kDisableFindDb, false))
    return {fmt::format("{} is set: nothing is read or stored", env::kDisableFindDb.name), "unset it"};
  if (is_hit(ranking, FindMode::kHybrid)) return {};
  const auto records = find_db(rq.handle.device().architecture).lookup(rq.problem.key());
  if (records.empty()) return {"no record of this problem", "run find once, or: MIOpenDriver tune --from-list FILE"};
  for (const Candidate& c : ranking) {
    if (c.current) continue;
    const SolverInfo info = c.solver->info();
    const FindRecord* found = nullptr;
    for (const FindRecord& r : records)
      if (r.solver == info.name && (!found || r.solver_version > found->solver_version)) found = &r;
    return found ? unusable(rq, info, *found) : Miss{fmt::format("{} has no record", info.name), "run find again"};
  }
  return {"the best solver was predicted, not measured", "run find without a budget"};
}

}  // namespace

std::string explain(const Request& rq) {
  const auto ranking = rank(rq);
  const auto& device = rq.handle.device();
  JsonObject peak, j;
  peak.add("fp32_gflops", device.fp32_gflops)
      .add("bandwidth_gbs", device.bandwidth_gbs)
      .add("measured", device.calibrated);
  JsonArray solvers;
  for (const SolverBase* solver : rq.solvers) solvers.add_raw(describe(rq, *solver, ranking));
  return j.add("problem", rq.problem.key())
      .add("family", rq.problem.family())
      .add("device", device.name)
      .add("architecture", device.architecture)
      .add("threads", device.threads)
      .add("estimates", kEstimates)
      .add_raw("peak", peak.text())
      .add("source", source_of(ranking))
      .add("chosen", ranking.empty() ? "" : ranking[0].solver->info().name)
      .add_raw("model", learned(rq, ranking))
      .add_raw("solvers", solvers.text())
      .text();
}

std::string diagnose(Handle& handle, const Request* rq) {
  const auto& device = handle.device();
  JsonObject j;
  j.add("device", device.name)
      .add("architecture", device.architecture)
      .add("units", device.units)
      .add("threads", device.threads);
  JsonArray files;
  for (const FindDb::Layer& l : find_db(device.architecture).layers())
    files.add_raw(JsonObject()
                      .add("layer", l.name)
                      .add("path", l.path)
                      .add("readable", l.readable)
                      .add("writable", l.writable)
                      .add("problem", l.problem)
                      .add("records", l.records)
                      .add("bad_lines", l.bad_lines)
                      .add("bytes", l.bytes)
                      .text());
  j.add_raw("files", files.text())
      .add("find_mode", static_cast<int>(default_find_mode()))
      .add("find_enforce", static_cast<int>(enforce(handle)))
      .add("find_budget_ms", handle.find_budget_us() * 1e-3);
  if (handle.workspace_limit() != SIZE_MAX) j.add("workspace_limit", handle.workspace_limit());
  if (!rq) return j.text();
  const auto ranking = rank(*rq);
  const Miss missed = miss(*rq, ranking);
  const bool normal = default_find_mode() == FindMode::kNormal || default_find_mode() == FindMode::kReserved;
  JsonArray out;
  for (const SolverBase* s : quarantined(*rq)) out.add(s->info().name);
  JsonArray refused;
  for (const SolverBase* s : rq->solvers)
    if (const Verdict v = admit(*s, device, rq->problem, rq->constraints); !v)
      refused.add_raw(JsonObject().add("name", s->info().name).add("reason", v.text()).text());
  JsonObject problem;
  problem.add("line", rq->problem.key())
      .add("hit", missed.why.empty())
      .add("searches_anyway", normal || enforce(handle) != Enforce::kNone)
      .add("chosen", ranking.empty() ? "" : ranking[0].solver->info().name)
      .add("source", source_of(ranking))
      .add("why_missed", missed.why)
      .add("advice", missed.advice)
      .add_raw("quarantined", out.text());
  problem.add_raw("refused", refused.text());
  return j.add_raw("problem", problem.text()).text();
}

}  // namespace polymio::search
