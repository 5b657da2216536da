// Group `solver`: names and ids of solvers.
// SPDX-License-Identifier: MIT
#include <miopen/solver.h>

#include <string>
#include <string_view>

#include "capi/common/arguments.h"
#include "capi/common/guard.h"
#include "core/registry.h"

using namespace polymio;
using capi::guard;
using capi::not_null;

miopenStatus_t miopenGetSolverName(uint64_t solverId, char* nameBuf, size_t nameBufLen) {
  return guard([&] {
    const SolverBase* solver = solver_by_id(solverId);
    // For an unknown id MIOpen's text.
    const std::string name = solver ? solver->info().name : "INVALID_SOLVER_ID_" + std::to_string(solverId);
    capi::put_text(name, not_null(nameBuf, "nameBuf"), &nameBufLen);
  });
}

miopenStatus_t miopenGetSolverIdByName(const char* solverName, uint64_t* solverId) {
  return guard([&] {
    const std::string_view name = not_null(solverName, "solverName");
    const SolverBase* solver = solver_by_name(name);  // which also takes an id as text
    *not_null(solverId, "solverId") = solver && name == solver->info().name ? solver->info().id : 0;
  });
}
