// Every solver of reductions, a row each; ids 13001 to 13999 are theirs.
// SPDX-License-Identifier: MIT
#include "primitives/reduce/solvers.h"

#include "core/registry.h"

namespace polymio::reduce {

SolverMaker<Direction> cpu_rows, gpu_rows, gpu_columns;

namespace {

// The order of sums of columns depends on the alignment of a.
constexpr SolverInfo info(std::uint64_t id, const char* name, unsigned devices, bool deterministic = true) {
  return {.id = id, .name = name, .method = "Direct", .devices = devices, .deterministic = deterministic};
}

constexpr Registration<Direction> kRows[] = {
    {info(13001, "ReduceCpu", kCpu), Direction::kForward, cpu_rows},
    {info(13002, "ReduceGpuRows", kGpus), Direction::kForward, gpu_rows},
    {info(13003, "ReduceGpuColumns", kGpus, false), Direction::kForward, gpu_columns},
};

}  // namespace

SolverList solvers(DeviceKind kind) { return registered<kRows>().list(Direction::kForward, kind); }

SolverList all_solvers() { return registered<kRows>().all(); }

}  // namespace polymio::reduce
