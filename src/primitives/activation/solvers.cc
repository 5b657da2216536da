// Every activation solver, a row each, and helpers of the CPU solvers; ids 1001 to 1999 are activation's.
// SPDX-License-Identifier: MIT
#include "primitives/activation/solvers.h"

#include <algorithm>

#include "core/registry.h"
#include "kernels/cpu/activation.h"

namespace polymio::activation {

using Maker = SolverMaker<Direction>;
Maker cpu_packed, cpu_strided, cpu_reference, gpu_elementwise;

namespace {

constexpr SolverInfo info(std::uint64_t id, const char* name, unsigned devices, bool reference = false) {
  return {.id = id, .name = name, .method = "Direct", .devices = devices, .reference = reference};
}

// Order decides between equal times.
constexpr Registration<Direction> kRows[] = {
    {info(1001, "ActivCpuPackedFwd", kCpu), Direction::kForward, cpu_packed},
    {info(1002, "ActivCpuPackedBwd", kCpu), Direction::kBackward, cpu_packed},
    {info(1005, "ActivCpuStridedFwd", kCpu), Direction::kForward, cpu_strided},
    {info(1006, "ActivCpuStridedBwd", kCpu), Direction::kBackward, cpu_strided},
    {info(1003, "ActivCpuReferenceFwd", kCpu, true), Direction::kForward, cpu_reference},
    {info(1004, "ActivCpuReferenceBwd", kCpu, true), Direction::kBackward, cpu_reference},
    {info(1007, "ActivGpuElementwiseFwd", kGpus), Direction::kForward, gpu_elementwise},
    {info(1008, "ActivGpuElementwiseBwd", kGpus), Direction::kBackward, gpu_elementwise},
};

}  // namespace

SolverList solvers(Direction direction, DeviceKind kind) { return registered<kRows>().list(direction, kind); }

SolverList all_solvers() { return registered<kRows>().all(); }

double arithmetic_us(const DeviceInfo& device, const Problem& p) {
  // Cost per element and mode, in fp32 operations at peak; measured with data in the L1 cache.
  static constexpr double kCost[] = {10, 70, 70, 10, 115, 10, 400, 10, 10, 50, 10};
  const double type_cost = p.x.type == DataType::kDouble ? 4 : 1;
  return kCost[static_cast<int>(p.mode)] * type_cost * static_cast<double>(p.count()) /
         (std::max(device.fp32_gflops, 1.0) * 1e3);
}

kernels::Activation kernel_job(const Problem& p, const Problem::Args& args) {
  kernels::Activation job;
  job.type = p.x.type;
  job.mode = static_cast<int>(p.mode);
  job.pass = p.forward()   ? kernels::ActivationPass::kForward
             : args.x_is_y ? kernels::ActivationPass::kBackwardFromY
                           : kernels::ActivationPass::kBackward;
  job.x = args.x;
  job.dy = args.dy;
  job.result = args.result;
  job.alpha = args.parameters.alpha;
  job.beta = args.parameters.beta;
  job.gamma = args.parameters.gamma;
  job.scale = args.scale;
  job.keep = args.keep;
  return job;
}

}  // namespace polymio::activation
