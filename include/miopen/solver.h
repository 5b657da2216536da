// Solvers by id and by name: the ids are those of the immediate mode and of find 2.0, and never change.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_SOLVER_H_
#define MIOPEN_SOLVER_H_

#include <miopen/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Copies the name of a solver, such as "ConvCpuGemmFwd", with a NUL at its end; "INVALID_SOLVER_ID_" and the number
/// for an unknown id. BadParm if the buffer is null or too small.
MIOPEN_EXPORT miopenStatus_t miopenGetSolverName(uint64_t solverId, char* nameBuf, size_t nameBufLen);

/// The id of the solver with this name; 0 if there is none.
MIOPEN_EXPORT miopenStatus_t miopenGetSolverIdByName(const char* solverName, uint64_t* solverId);

#ifdef __cplusplus
}
#endif

#endif  // MIOPEN_SOLVER_H_
