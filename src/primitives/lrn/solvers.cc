// Every LRN solver, a row each; ids 7001 to 7999 are LRN's.
// SPDX-License-Identifier: MIT
#include "core/registry.h"
#include "primitives/lrn/lrn.h"

namespace polymio::lrn {

using Maker = SolverMaker<Direction>;
Maker cpu_window, gpu_window;

namespace {

constexpr SolverInfo info(std::uint64_t id, const char* name, unsigned devices, int version = 1) {
  return {.id = id, .name = name, .method = "Direct", .version = version, .devices = devices};
}

constexpr Registration<Direction> kRows[] = {
    {info(7001, "LrnCpuWindowFwd", kCpu, 2), Direction::kForward, cpu_window},
    {info(7002, "LrnCpuWindowBwd", kCpu), Direction::kBackward, cpu_window},
    {info(7003, "LrnGpuWindowFwd", kGpus), Direction::kForward, gpu_window},
    {info(7004, "LrnGpuWindowBwd", kGpus), Direction::kBackward, gpu_window},
};

}  // namespace

SolverList solvers(Direction direction, DeviceKind kind) { return registered<kRows>().list(direction, kind); }

SolverList all_solvers() { return registered<kRows>().all(); }

}  // namespace polymio::lrn
