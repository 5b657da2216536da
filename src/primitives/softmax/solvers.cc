// Every softmax solver, a row each; ids 4001 to 4999 are softmax's.
// SPDX-License-Identifier: MIT
#include "primitives/softmax/solvers.h"

#include "core/registry.h"

namespace polymio::softmax {

SolverMaker<Direction> cpu_rows, gpu_rows;

namespace {

// On GPUs the order of a sum depends on the alignment of the tensors, too.
constexpr SolverInfo info(std::uint64_t id, const char* name, unsigned devices) {
  return {.id = id,
          .name = name,
          .method = "Direct",
          .version = devices == kCpu ? 1 : 2,
          .devices = devices,
          .deterministic = devices == kCpu};
}

constexpr Registration<Direction> kRows[] = {
    {info(4001, "SoftmaxCpuFwd", kCpu), Direction::kForward, cpu_rows},
    {info(4002, "SoftmaxCpuBwd", kCpu), Direction::kBackward, cpu_rows},
    {info(4003, "SoftmaxGpuFwd", kGpus), Direction::kForward, gpu_rows},
    {info(4004, "SoftmaxGpuBwd", kGpus), Direction::kBackward, gpu_rows},
};

}  // namespace

SolverList solvers(Direction direction, DeviceKind kind) { return registered<kRows>().list(direction, kind); }

SolverList all_solvers() { return registered<kRows>().all(); }

}  // namespace polymio::softmax
