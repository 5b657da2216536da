// Every normalization solver, a row each; ids 5001 to 5999 are normalization's.
// SPDX-License-Identifier: MIT
#include "primitives/norm/solvers.h"

#include "core/registry.h"

namespace polymio::norm {

using Maker = SolverMaker<Direction>;
Maker cpu_blocks, cpu_rows, cpu_columns, gpu_rows;

namespace {

constexpr SolverInfo info(std::uint64_t id, const char* name, unsigned devices) {
  return {.id = id, .name = name, .method = "Direct", .version = 2, .devices = devices};
}

// Order decides between equal times.
constexpr Registration<Direction> kRows[] = {
    {info(5006, "NormCpuBlocksBwd", kCpu), Direction::kBackward, cpu_blocks},
    {info(5001, "NormCpuRowsFwd", kCpu), Direction::kForward, cpu_rows},
    {info(5002, "NormCpuRowsBwd", kCpu), Direction::kBackward, cpu_rows},
    {info(5003, "NormCpuColumnsFwd", kCpu), Direction::kForward, cpu_columns},
    {info(5004, "NormGpuRowsFwd", kGpus), Direction::kForward, gpu_rows},
    {info(5005, "NormGpuRowsBwd", kGpus), Direction::kBackward, gpu_rows},
};

}  // namespace

SolverList solvers(Direction direction, DeviceKind kind) { return registered<kRows>().list(direction, kind); }

SolverList all_solvers() { return registered<kRows>().all(); }

}  // namespace polymio::norm
