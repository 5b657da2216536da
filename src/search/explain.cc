// The whole decision about one problem as JSON.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/env.h"
#include "core/kernel_builder.h"
#include "db/find_db.h"
#include "search/find.h"
#include "search/model.h"

namespace polymio::search {
namespace {

const char* name_of(ErrorClass e) {
  switch (e) {
    case ErrorClass::kExact:
      return "exact";
    case ErrorClass::kAccurate:
      return "accurate";
    case ErrorClass::kReduced:
      return "reduced";
    case ErrorClass::kApproximate:
      return "approximate";
  }
  return "unknown";
}

nlohmann::ordered_json describe(const Request& rq, const SolverBase& solver, const std::vector<Candidate>& ranking) {
  const SolverInfo info = solver.info();
  const auto& device = rq.handle.device();
  nlohmann::ordered_json j = {{"name", info.name},
                              {"id", info.id},
                              {"algorithm", polymio::name_of(info.algorithm)},
                              {"version", info.version},
                              {"reference", info.reference},
                              {"dynamic", info.dynamic},
                              {"deterministic", info.deterministic}};
  const Verdict verdict = admit(solver, device, rq.problem, rq.constraints);
  const auto it = std::find_if(ranking.begin(), ranking.end(), [&](const Candidate& c) { return c.solver == &solver; });
  j["applicable"] = verdict && it != ranking.end();
  if (!verdict || it == ranking.end()) {
    j["reason"] = verdict ? kQuarantined : verdict.text();
    return j;
  }
  j["source"] = name_of(it->source);
  j["predicted_us"] = it->source == Source::kMeasured ? solver.estimate(device, rq.problem, it->point) : it->us;
  j["measured_us"] = it->source == Source::kMeasured ? nlohmann::ordered_json(it->us) : nlohmann::ordered_json();
  j["workspace"] = it->workspace;
  j["error_class"] = name_of(solver.error_class(rq.problem));
  j["tune_point"] = to_text(it->point);
  j["tuned"] = it->tuned;
  if (device.kind == DeviceKind::kCpu) return j;
  if (const auto notes = spill_notes(rq.handle.stream(), solver.kernel_specs(device, rq.problem, it->point));
      !notes.empty())
    j["spills"] = notes;
  return j;
}

/// Where the choice comes from: "database" when every allowed solver has a record.
std::string source_of(const std::vector<Candidate>& ranking) {
  if (is_hit(ranking, FindMode::kHybrid)) return "database";
  return ranking.empty() ? "" : name_of(ranking[0].source);
}

/// What the learned model says: whether it applies, and how sure the first of two predictions is the better one.
nlohmann::ordered_json learned(const Request& rq, const std::vector<Candidate>& ranking) {
  std::string reason;
  const Model* model = learned_model(rq.handle.device(), &reason);
  const auto prediction = model ? model->predict(rq.handle.device(), rq.problem, rq.solvers) : nullptr;
  if (prediction) reason = prediction->declined;
  nlohmann::ordered_json j = {{"applies", reason.empty()}};
  if (!reason.empty()) j["reason"] = reason;
  const bool chose = reason.empty() && !ranking.empty() && ranking[0].source == Source::kModel;
  if (!chose) return j;
  const bool rival = ranking.size() > 1 && !ranking[1].solver->info().reference;
  const double lead = rival ? std::log(ranking[1].us / ranking[0].us) / std::max(prediction->spread, 1e-6) : INFINITY;
  j["confidence"] = 0.5 * std::erfc(-lead / std::sqrt(2.0));
  return j;
}

struct Miss {
  std::string why, advice;  // empty: the database answers
};

/// The record of a solver that could not be taken: why, and what to do about it.
Miss unusable(const Request& rq, const SolverInfo& info, const FindRecord& r) {
  const auto& device = rq.handle.device();
  if (r.solver_version != info.version)
    return {fmt::format("{} is version {}, its record is of version {}", info.name, info.version, r.solver_version),
            "run find again: only this solver is measured anew"};
  if (r.units != device.units || r.thread_cap != device.threads)
    return {fmt::format("{} was measured with {} of {} cores, now it is {} of {}", info.name, r.thread_cap, r.units,
                        device.threads, device.units),
            "run find with these threads"};
  return {fmt::format("the record of {} does not fit: its point '{}' takes {} bytes of workspace, the limit is {}",
                      info.name, r.tune_point, r.workspace, rq.constraints.workspace_limit),
          "allow the workspace, or run find again within the limit"};
}

/// Why the database does not answer, and what to do about it.
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
  nlohmann::ordered_json j;
  j["problem"] = rq.problem.key();
  j["family"] = rq.problem.family();
  j["device"] = device.name;
  j["architecture"] = device.architecture;
  j["threads"] = device.threads;
  j["estimates"] = kEstimates;
  j["peak"] = {
      {"fp32_gflops", device.fp32_gflops}, {"bandwidth_gbs", device.bandwidth_gbs}, {"measured", device.calibrated}};
  j["source"] = source_of(ranking);
  j["chosen"] = ranking.empty() ? "" : ranking[0].solver->info().name;
  j["model"] = learned(rq, ranking);
  j["solvers"] = nlohmann::ordered_json::array();
  for (const SolverBase* solver : rq.solvers) j["solvers"].push_back(describe(rq, *solver, ranking));
  return j.dump();
}

std::string diagnose(Handle& handle, const Request* rq) {
  const auto& device = handle.device();
  nlohmann::ordered_json j;
  j["device"] = device.name;
  j["architecture"] = device.architecture;
  j["units"] = device.units;
  j["threads"] = device.threads;
  j["files"] = nlohmann::ordered_json::array();
  for (const FindDb::Layer& l : find_db(device.architecture).layers())
    j["files"].push_back({{"layer", l.name},
                          {"path", l.path},
                          {"readable", l.readable},
                          {"writable", l.writable},
                          {"problem", l.problem},
                          {"records", l.records},
                          {"bad_lines", l.bad_lines},
                          {"bytes", l.bytes}});
  j["find_mode"] = static_cast<int>(default_find_mode());
  j["find_enforce"] = static_cast<int>(enforce());
  j["find_budget_ms"] = handle.find_budget_us() * 1e-3;
  if (handle.workspace_limit() != SIZE_MAX) j["workspace_limit"] = handle.workspace_limit();
  if (rq) {
    const auto ranking = rank(*rq);
    const Miss missed = miss(*rq, ranking);
    const bool normal = default_find_mode() == FindMode::kNormal || default_find_mode() == FindMode::kReserved;
    j["problem"] = {{"line", rq->problem.key()},
                    {"hit", missed.why.empty()},
                    {"searches_anyway", normal || enforce() != Enforce::kNone},
                    {"chosen", ranking.empty() ? "" : ranking[0].solver->info().name},
                    {"source", source_of(ranking)},
                    {"why_missed", missed.why},
                    {"advice", missed.advice},
                    {"quarantined", nlohmann::ordered_json::array()}};
    for (const SolverBase* s : quarantined(*rq)) j["problem"]["quarantined"].push_back(s->info().name);
  }
  return j.dump();
}

}  // namespace polymio::search
