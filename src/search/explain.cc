// The whole decision about one problem as JSON.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <nlohmann/json.hpp>

#include "search/find.h"

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

nlohmann::ordered_json describe(const Request& rq, const SolverBase& solver, const Ranking& ranking) {
  const SolverInfo info = solver.info();
  const auto& device = rq.handle.device();
  nlohmann::ordered_json j = {{"name", info.name},
                              {"id", info.id},
                              {"algorithm", polymio::name_of(info.algorithm)},
                              {"version", info.version},
                              {"reference", info.reference},
                              {"deterministic", info.deterministic}};
  const Verdict verdict = admit(solver, device, rq.problem, rq.constraints);
  j["applicable"] = static_cast<bool>(verdict);
  if (!verdict) {
    j["reason"] = verdict.text();
    return j;
  }
  const auto it = std::find_if(ranking.candidates.begin(), ranking.candidates.end(),
                               [&](const Candidate& c) { return c.solver == &solver; });
  if (it == ranking.candidates.end()) return j;
  j["predicted_us"] = solver.estimate(device, rq.problem, it->point);
  j["measured_us"] = it->measured ? nlohmann::ordered_json(it->us) : nlohmann::ordered_json();
  j["workspace"] = it->workspace;
  j["error_class"] = name_of(solver.error_class(rq.problem));
  j["tune_point"] = to_text(it->point);
  return j;
}

}  // namespace

std::string explain(const Request& rq) {
  const Ranking ranking = rank(rq);
  nlohmann::ordered_json j;
  j["problem"] = rq.problem.key();
  j["device"] = rq.handle.device().name;
  j["architecture"] = rq.handle.device().architecture;
  j["threads"] = rq.handle.stream().threads();
  j["source"] = name_of(ranking.source);
  j["chosen"] = ranking.candidates.empty() ? "" : ranking.candidates[0].solver->info().name;
  j["solvers"] = nlohmann::ordered_json::array();
  for (const SolverBase* solver : rq.solvers) j["solvers"].push_back(describe(rq, *solver, ranking));
  return j.dump();
}

}  // namespace polymio::search
