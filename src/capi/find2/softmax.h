// What find 2.0 needs of a primitive, for softmax.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "capi/find2/problem.h"

namespace polymio::capi {

SoftmaxCall make_call(const SoftmaxOperation&, const ProblemState&, Status missing);

std::array<TensorBuffer, 3> tensors_of(const ProblemState&, const SoftmaxCall&);

/// The solvers need no workspace.
softmax::Problem::Args arguments(const ProblemState&, const SoftmaxCall&, std::span<const TensorBuffer, 3>,
                                 void* workspace, std::size_t bytes);

inline std::optional<std::vector<search::Candidate>> answer(Handle& handle, const SoftmaxCall& call,
                                                            const Constraints& allowed, const softmax::Problem::Args&,
                                                            const search::FindOptions& options,
                                                            const char* reason = nullptr) {
  return search_call(handle, call, allowed).answer(options, reason);
}
inline std::vector<search::Candidate> measure(Handle& handle, const SoftmaxCall& call, const Constraints& allowed,
                                              const softmax::Problem::Args& args, const search::FindOptions& options) {
  return softmax::find(handle, call.problem, allowed, args, options);
}

inline void run(Handle& handle, const SoftmaxCall& call, const softmax::Problem::Args& args,
                const search::Candidate& solution) {
  softmax::run(handle, call.problem, args, solution.solver->info().id, solution.point);
}

inline void validate(const SoftmaxCall& call) { softmax::validate(call.problem); }
inline SolverList solvers(const SoftmaxCall& call, DeviceKind kind) {
  return softmax::solvers(call.problem.direction, kind);
}

}  // namespace polymio::capi
