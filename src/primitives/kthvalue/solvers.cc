// Every solver of kthvalue, a row each; ids 14001 to 14999 are its.
// SPDX-License-Identifier: MIT
#include "primitives/kthvalue/solvers.h"

#include "core/registry.h"

namespace polymio::kthvalue {

SolverMaker<Direction> cpu_digits, gpu_digits, gpu_rows;

namespace {

constexpr SolverInfo info(std::uint64_t id, const char* name, unsigned devices) {
  return {.id = id, .name = name, .method = "Direct", .devices = devices};
}

constexpr Registration<Direction> kRows[] = {
    {info(14001, "KthvalueCpu", kCpu), Direction::kForward, cpu_digits},
    {info(14002, "KthvalueGpu", kGpus), Direction::kForward, gpu_digits},
    {info(14003, "KthvalueGpuRows", kGpus), Direction::kForward, gpu_rows},
};

}  // namespace

SolverList solvers(DeviceKind kind) { return registered<kRows>().list(Direction::kForward, kind); }

SolverList all_solvers() { return registered<kRows>().all(); }

}  // namespace polymio::kthvalue
