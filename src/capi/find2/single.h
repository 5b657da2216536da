// What find 2.0 needs of a primitive that has one problem and no constraints of its own: softmax, attention.
// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <optional>
#include <vector>

#include "capi/find2/problem.h"

namespace polymio::capi {

template <class Call>
concept SingleCall = std::same_as<Call, SoftmaxCall> || std::same_as<Call, MhaCall>;

/// See find2/convolution.h; the functions of the primitive are found by the type of its problem.
template <SingleCall Call, class Args>
std::optional<std::vector<search::Candidate>> answer(Handle& handle, const Call& call, const Constraints& allowed,
                                                     const Args&, const search::FindOptions& options,
                                                     const char* reason = nullptr) {
  return search_call(handle, call, allowed).answer(options, reason);
}
template <SingleCall Call, class Args>
std::vector<search::Candidate> measure(Handle& handle, const Call& call, const Constraints& allowed, const Args& args,
                                       const search::FindOptions& options) {
  return find(handle, call.problem, allowed, args, options);
}
template <SingleCall Call, class Args>
void run(Handle& handle, const Call& call, const Args& args, const search::Candidate& solution) {
  run(handle, call.problem, args, solution.solver->info().id, solution.point);
}
template <SingleCall Call>
void validate(const Call& call) {
  validate(call.problem);
}
template <SingleCall Call>
SolverList solvers(const Call& call, DeviceKind kind) {
  return solvers(call.problem.direction, kind);
}

}  // namespace polymio::capi
