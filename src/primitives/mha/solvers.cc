// Every attention solver, a row each; ids 12001 to 12999 are attention's.
// SPDX-License-Identifier: MIT
#include "primitives/mha/solvers.h"

#include "core/registry.h"

namespace polymio::mha {

SolverMaker<Direction> cpu_blocks, gpu_tiles, cuda_matrix_tiles, cuda_hopper;

namespace {

constexpr SolverInfo info(std::uint64_t id, const char* name, unsigned devices, int alignment = 1) {
  return {.id = id, .name = name, .method = "Flash", .devices = devices, .alignment = alignment};
}

constexpr Registration<Direction> kRows[] = {
    {info(12001, "MhaCpuFwd", kCpu), Direction::kForward, cpu_blocks},
    {info(12002, "MhaCpuBwd", kCpu), Direction::kBackward, cpu_blocks},
    {info(12007, "MhaHopperFwd", kCuda, 16), Direction::kForward, cuda_hopper},
    {info(12008, "MhaHopperBwd", kCuda, 16), Direction::kBackward, cuda_hopper},
    {info(12005, "MhaCudaMatrixFwd", kCuda), Direction::kForward, cuda_matrix_tiles},
    {info(12006, "MhaCudaMatrixBwd", kCuda), Direction::kBackward, cuda_matrix_tiles},
    {info(12003, "MhaGpuFwd", kGpus), Direction::kForward, gpu_tiles},
    {info(12004, "MhaGpuBwd", kGpus), Direction::kBackward, gpu_tiles},
};

}  // namespace

SolverList solvers(Direction direction, DeviceKind kind) { return registered<kRows>().list(direction, kind); }

SolverList all_solvers() { return registered<kRows>().all(); }

}  // namespace polymio::mha
