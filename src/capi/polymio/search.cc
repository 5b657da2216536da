// Extensions of find: options, workspace limit, budget, tuning, explanation, diagnosis.
// SPDX-License-Identifier: MIT
#include <miopen/polymio.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "capi/common/handle.h"
#include "capi/find2/chain.h"
#include "capi/find2/problem.h"
#include "core/registry.h"

using namespace polymio;
using capi::deref;
using capi::guard;
using capi::not_null;

namespace {

/// The search of a problem, for the duration of a call.
struct ProblemSearch {
  std::variant<capi::ProblemCall, capi::CollectedOperation> subject;
  search::Call solvers;
  ProblemSearch(miopenHandle_t handle, miopenProblem_t problem)
      : subject(subject_of(deref(problem))), solvers(search_call(deref(handle))) {}

 private:
  static decltype(subject) subject_of(const capi::ProblemState& problem) {
    if (const auto* collected = problem.find<capi::CollectedOperation>()) return *collected;
    return capi::make_call(problem, Status::kBadParm);
  }
  search::Call search_call(Handle& handle) const {
    if (const auto* collected = std::get_if<capi::CollectedOperation>(&subject))
      return capi::search_call(handle, *collected);
    return std::visit([&](const auto& call) { return capi::search_call(handle, call); },
                      std::get<capi::ProblemCall>(subject));
  }
};

std::vector<search::Candidate> ranked(miopenHandle_t handle, miopenProblem_t problem) {
  return ProblemSearch(handle, problem).solvers.solutions();
}

/// The Pareto-optimal candidates in time and workspace, least workspace first.
std::vector<search::Candidate> pareto(std::vector<search::Candidate> all) {
  std::stable_sort(all.begin(), all.end(), [](const search::Candidate& a, const search::Candidate& b) {
    return a.workspace != b.workspace ? a.workspace < b.workspace : a.us < b.us;
  });
  std::vector<search::Candidate> front;
  for (const auto& c : all)
    if (front.empty() || c.us < front.back().us) front.push_back(c);
  return front;
}

Handle::TuningCallback callback(polymioTuningCallback function, void* context) {
  if (!function) return nullptr;
  return [function, context](const TuningProgress& p) {
    const polymioTuningProgress_t progress{sizeof progress, p.problem.c_str(), p.solver,     p.done,
                                           p.total,         p.best_us * 1e-3,  p.eta_seconds};
    return function(context, &progress) != 0;
  };
}

}  // namespace

miopenStatus_t polymioGetOptions(miopenHandle_t handle, miopenProblem_t problem, polymioOption_t* options,
                                 size_t* count) {
  return guard([&] {
    const auto front = pareto(ranked(handle, problem));
    const std::size_t capacity = *not_null(count, "count");
    *count = front.size();
    if (!options) return;
    require(capacity >= front.size(), "there is room for {} options, {} are needed", capacity, front.size());
    const std::size_t stride = front.empty() ? 0 : capi::struct_size(*options, "options");
    for (std::size_t i = 0; i < front.size(); ++i) {
      const auto& c = front[i];
      // The caller's struct may be larger or smaller than this version's.
      auto* element = reinterpret_cast<polymioOption_t*>(reinterpret_cast<char*>(options) + i * stride);
      require(element->size == stride,
              "options[{}].size is {}, that of the first {}: set it to sizeof(polymioOption_t)", i, element->size,
              stride);
      capi::put_sized(element,
                      {0, c.solver->info().id, static_cast<float>(c.us * 1e-3), c.workspace,
                       static_cast<polymioSource_t>(c.source)},
                      "options");
    }
  });
}

miopenStatus_t polymioGetSolutionSource(miopenHandle_t handle, miopenProblem_t problem, uint64_t solution_id,
                                        polymioSource_t* source) {
  return guard([&] {
    not_null(source, "source");
    for (const auto& c : ranked(handle, problem)) {
      if (c.solver->info().id != solution_id) continue;
      *source = static_cast<polymioSource_t>(c.source);
      return;
    }
    require(solver_by_id(solution_id), "solution id {} is unknown; ask GetSolution for the valid ones", solution_id);
    fail(Status::kBadParm, "solution {} does not apply to the problem", solution_id);
  });
}

miopenStatus_t polymioSetWorkspaceLimit(miopenHandle_t handle, size_t bytes) {
  return guard([&] { deref(handle).set_workspace_limit(bytes); });
}

miopenStatus_t polymioGetWorkspaceLimit(miopenHandle_t handle, size_t* bytes) {
  return guard([&] { *not_null(bytes, "bytes") = deref(handle).workspace_limit(); });
}

miopenStatus_t polymioSetFindBudget(miopenHandle_t handle, double milliseconds) {
  return guard([&] {
    require(std::isfinite(milliseconds) && milliseconds >= 0,
            "the find budget is {} ms: it must be 0 (no limit) or positive", milliseconds);
    deref(handle).set_find_budget_us(milliseconds * 1e3);
  });
}

miopenStatus_t polymioGetFindBudget(miopenHandle_t handle, double* milliseconds) {
  return guard([&] { *not_null(milliseconds, "milliseconds") = deref(handle).find_budget_us() * 1e-3; });
}

const char* polymioGetLastFindReport(void) { return search::last_report().c_str(); }

miopenStatus_t polymioSetExplaining(int on) {
  return guard([&] { search::keep_explanations(on != 0); });
}

const char* polymioGetLastExplanation(void) { return search::last_explanations().c_str(); }

miopenStatus_t polymioSetTuneWhileRunning(miopenHandle_t handle, int on) {
  return guard([&] { deref(handle).set_tunes_while_running(on != 0); });
}

miopenStatus_t polymioSetTuningCallback(miopenHandle_t handle, polymioTuningCallback function, void* context) {
  return guard([&] { deref(handle).set_tuning_callback(callback(function, context)); });
}

miopenStatus_t polymioTune(miopenHandle_t handle, miopenProblem_t problem, const polymioTuneOptions_t* options,
                           polymioTuneResult_t* result) {
  return guard([&] {
    search::TuneAll tuning;
    if (options) {
      polymioTuneOptions_t given{};
      std::memcpy(&given, options, std::min(capi::struct_size(*options, "options"), sizeof given));
      require(std::isfinite(given.budget_ms) && given.budget_ms >= 0,
              "the tuning budget is {} ms: it must be 0 (no limit) or positive", given.budget_ms);
      tuning = {given.budget_ms * 1e3, given.again != 0};
    }
    capi::struct_size(*not_null(result, "result"), "result");  // before the tuning, which may take minutes
    const auto tuned = ProblemSearch(handle, problem).solvers.tune(tuning);
    const search::Candidate& best = tuned.candidates[0];
    capi::put_sized(
        result,
        {0, tuned.complete, tuned.measured, best.solver->info().id, static_cast<float>(best.us * 1e-3), best.workspace},
        "result");
  });
}

miopenStatus_t polymioDiagnose(miopenHandle_t handle, miopenProblem_t problem, char* buffer, size_t* size) {
  return guard([&] {
    if (!problem) return capi::put_text(search::diagnose(deref(handle), nullptr), buffer, size);
    const ProblemSearch of_problem(handle, problem);
    capi::put_text(search::diagnose(deref(handle), &of_problem.solvers.request()), buffer, size);
  });
}

miopenStatus_t polymioExplain(miopenHandle_t handle, miopenProblem_t problem, char* buffer, size_t* size) {
  return guard([&] {
    const ProblemSearch of_problem(handle, problem);
    capi::put_text(search::explain(of_problem.solvers.request()), buffer, size);
  });
}

miopenStatus_t polymioGetSolutionName(uint64_t solution_id, const char** name) {
  return guard([&] {
    not_null(name, "name");
    const SolverBase* solver = solver_by_id(solution_id);
    require(solver, "solution id {} is unknown; ask GetSolution for the valid ones", solution_id);
    *name = solver->info().name;
  });
}
