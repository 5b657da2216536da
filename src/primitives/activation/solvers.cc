// The list of solvers, and helpers of the CPU solvers.
// SPDX-License-Identifier: MIT
#include "primitives/activation/solvers.h"

#include <algorithm>

namespace polymio::activation {

SolverList solvers(Direction d) {
  static const SolverBase* const kLists[2][4] = {
      {&cpu_packed(Direction::kForward), &cpu_strided(Direction::kForward), &cpu_reference(Direction::kForward),
       &gpu_elementwise(Direction::kForward)},
      {&cpu_packed(Direction::kBackward), &cpu_strided(Direction::kBackward), &cpu_reference(Direction::kBackward),
       &gpu_elementwise(Direction::kBackward)}};
  return kLists[static_cast<int>(d)];
}

double arithmetic_us(const DeviceInfo& device, const Problem& p) {
  // Cost per element and mode, in fp32 operations at peak; measured with data in the L1 cache.
  static constexpr double kCost[] = {10, 70, 70, 10, 115, 10, 400, 10, 10, 50};
  const double type_cost = p.x.type == DataType::kDouble ? 4 : 1;
  return kCost[static_cast<int>(p.mode)] * type_cost * static_cast<double>(p.count()) /
         (std::max(device.fp32_gflops, 1.0) * 1e3);
}

const kernels::KernelTable& kernel_table(const DeviceInfo& device) {
  return kernels::kernel_table(static_cast<kernels::Isa>(device.isa));
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

void for_parts(Stream& stream, std::int64_t count, std::int64_t part,
               FunctionRef<void(std::int64_t, std::int64_t)> body) {
  stream.parallel_for(static_cast<std::size_t>((count + part - 1) / part), 0, [&](std::size_t i, void*) {
    const std::int64_t first = static_cast<std::int64_t>(i) * part;
    body(first, std::min(first + part, count));
  });
}

}  // namespace polymio::activation
