// SPDX-License-Identifier: MIT
#include "core/registry.h"

#include <string>

namespace polymio {
namespace {

template <class Is>
const SolverBase* first_that(const Is& is) {
  for (const SolverList& solvers : registered_solvers())
    for (const SolverBase* solver : solvers)
      if (is(solver->info())) return solver;
  return nullptr;
}

}  // namespace

const SolverBase* solver_by_id(std::uint64_t id, SolverList among) {
  for (const SolverBase* solver : among)
    if (solver->info().id == id) return solver;
  return nullptr;
}

const SolverBase* solver_by_id(std::uint64_t id) {
  return first_that([id](const SolverInfo& info) { return info.id == id; });
}

const SolverBase* solver_by_name(std::string_view text) {
  return first_that([text](const SolverInfo& info) { return text == info.name || text == std::to_string(info.id); });
}

}  // namespace polymio
