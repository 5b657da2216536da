// What find 2.0 needs of a primitive, for convolutions and what is fused into them.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "capi/find2/problem.h"

namespace polymio::capi {

/// The call of a problem whose first operation is this convolution.
ConvolutionCall make_call(const ConvolutionOperation&, const ProblemState&, Status missing);

/// The tensors that a run needs, without buffers.
std::array<TensorBuffer, 4> tensors_of(const ProblemState&, const ConvolutionCall&);

/// The arguments of a run on tensors_of the call.
convolution::Problem::Args arguments(const ProblemState&, const ConvolutionCall&, std::span<const TensorBuffer, 4>,
                                     void* workspace, std::size_t bytes);

/// See search::answer and search::find; `allowed` replaces the call's constraints.
inline std::optional<std::vector<search::Candidate>> answer(Handle& handle, const ConvolutionCall& call,
                                                            const Constraints& allowed,
                                                            const convolution::Problem::Args& args,
                                                            const search::FindOptions& options,
                                                            const char* reason = nullptr) {
  return convolution::answer(handle, call.problem, allowed, args, options, reason);
}
inline std::vector<search::Candidate> measure(Handle& handle, const ConvolutionCall& call, const Constraints& allowed,
                                              const convolution::Problem::Args& args,
                                              const search::FindOptions& options) {
  return convolution::find(handle, call.problem, allowed, args, options);
}

inline void run(Handle& handle, const ConvolutionCall& call, const convolution::Problem::Args& args,
                const search::Candidate& solution) {
  convolution::run(handle, call.problem, call.constraints, args, solution.solver->info().id, solution.point);
}

/// For loaded solutions: BadParm for a problem that is wrong, and the solvers that its solution may have.
inline void validate(const ConvolutionCall& call) { convolution::validate(call.problem); }
inline SolverList solvers(const ConvolutionCall& call, DeviceKind kind) {
  return convolution::solvers(call.problem.direction, kind);
}

}  // namespace polymio::capi
