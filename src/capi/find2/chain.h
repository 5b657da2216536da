// What find 2.0 needs of a primitive, for biases, activations, batch norms and fused problems that run as a chain.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "capi/find2/problem.h"

namespace polymio::capi {

/// UnsupportedOp for chains without a meaning, NotImplemented for what their parts do not compute.
ChainCall make_chain_call(const ProblemState&, Status missing);

inline constexpr std::size_t kMostChainTensors = 18;

/// The tensors and scalars that a run needs, then absent ones. Moments that a forward batch norm saves are optional;
/// gradients take no result of an activation, and a bias only with an activation.
std::array<TensorBuffer, kMostChainTensors> tensors_of(const ProblemState&, const ChainCall&);

/// Arguments of a run.
struct ChainArgs {
  const void* in;
  void* out;
  std::array<fusion::Args, 4> operations;
  std::size_t count;
  void* workspace;
  std::size_t bytes;
};
ChainArgs arguments(const ProblemState&, const ChainCall&, std::span<const TensorBuffer, kMostChainTensors>,
                    void* workspace, std::size_t bytes);

/// Never from the database, which knows no chains: predictions in mode FAST or with a reason.
std::optional<std::vector<search::Candidate>> answer(Handle&, const ChainCall&, const Constraints& allowed,
                                                     const ChainArgs&, const search::FindOptions&,
                                                     const char* reason = nullptr);
/// Runs the whole chain with each solver of its main stage.
std::vector<search::Candidate> measure(Handle&, const ChainCall&, const Constraints& allowed, const ChainArgs&,
                                       const search::FindOptions&);
/// Bytes that let measure() consider every solver.
std::size_t most_workspace(Handle&, const ChainCall&, const Constraints& allowed);

void run(Handle&, const ChainCall&, const ChainArgs&, const search::Candidate& solution);

inline search::Call search_call(Handle& handle, const ChainCall& call, const Constraints& allowed) {
  return call.chain->search_call(handle, allowed);
}
inline search::Call search_call(Handle& handle, const ChainCall& call) {
  return search_call(handle, call, call.constraints);
}

inline void validate(const ChainCall&) {}  // a chain is valid once it is made
inline SolverList solvers(const ChainCall& call, DeviceKind kind) { return call.chain->solvers(kind); }

void log_call(const ChainCall&, const ChainArgs&, const char* function, std::uint64_t solution = 0);

}  // namespace polymio::capi
