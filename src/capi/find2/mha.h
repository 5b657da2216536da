// What find 2.0 needs of a primitive, for attention.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "capi/find2/problem.h"

namespace polymio::capi {

MhaCall make_call(const MhaOperation&, const ProblemState&, Status missing);

/// In the order of MhaOperation::kTensors.
using MhaBuffers = std::array<TensorBuffer, std::size(MhaOperation::kTensors)>;
MhaBuffers tensors_of(const ProblemState&, const MhaCall&);

mha::Problem::Args arguments(const ProblemState&, const MhaCall&, std::span<const TensorBuffer, MhaBuffers{}.size()>,
                             void* workspace, std::size_t bytes);

inline std::optional<std::vector<search::Candidate>> answer(Handle& handle, const MhaCall& call,
                                                            const Constraints& allowed, const mha::Problem::Args&,
                                                            const search::FindOptions& options,
                                                            const char* reason = nullptr) {
  return search_call(handle, call, allowed).answer(options, reason);
}
inline std::vector<search::Candidate> measure(Handle& handle, const MhaCall& call, const Constraints& allowed,
                                              const mha::Problem::Args& args, const search::FindOptions& options) {
  return mha::find(handle, call.problem, allowed, args, options);
}

inline void run(Handle& handle, const MhaCall& call, const mha::Problem::Args& args,
                const search::Candidate& solution) {
  mha::run(handle, call.problem, args, solution.solver->info().id, solution.point);
}

inline void validate(const MhaCall& call) { mha::validate(call.problem); }
inline SolverList solvers(const MhaCall& call, DeviceKind kind) { return mha::solvers(call.problem.direction, kind); }

}  // namespace polymio::capi
