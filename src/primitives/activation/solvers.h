// The solver objects listed in solvers.cc, and helpers of the CPU solvers. One class serves both directions.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/kernels.h"
#include "primitives/activation/activation.h"
#include "primitives/activation/grid.h"

namespace polymio::activation {

/// The traits that all CPU solvers share.
constexpr SolverInfo cpu_info(std::uint64_t id, const char* name) {
  return {.id = id,
          .name = name,
          .algorithm = Algorithm::kDirect,
          .version = 1,
          .devices = static_cast<unsigned>(DeviceKind::kCpu),
          .dynamic = true,
          .deterministic = true,
          .capture_safe = true,
          .reference = false};
}

const Solver<Problem>& cpu_packed(Direction);       // ids 1001, 1002
const Solver<Problem>& cpu_reference(Direction);    // ids 1003, 1004
const Solver<Problem>& cpu_strided(Direction);      // ids 1005, 1006
const Solver<Problem>& gpu_elementwise(Direction);  // ids 1007, 1008

/// The parameters that kernels use: rounded to float unless the tensors are fp64.
Parameters rounded(const Parameters&, DataType);

/// The gated linear unit on a GPU. The grid is that of the forward or backward problem of one half; `second` is the
/// offset of the other half, in elements.
std::vector<KernelSpec> gate_kernels(const DeviceInfo&, DataType);
void gate_forward(Stream&, const Grid&, DataType, const void* x, std::int64_t second, void* y);
void gate_backward(Stream&, const Grid&, DataType, const void* x, std::int64_t x_second, const void* dy, void* dx,
                   std::int64_t dx_second);

/// Microseconds of the arithmetic alone, without memory traffic.
double arithmetic_us(const DeviceInfo&, const Problem&);

const kernels::KernelTable& kernel_table(const DeviceInfo&);
kernels::Activation kernel_job(const Problem&, const Problem::Args&);

/// Calls body(first, end) on all threads for ranges of `part` elements.
void for_parts(Stream&, std::int64_t count, std::int64_t part, FunctionRef<void(std::int64_t, std::int64_t)> body);

/// Runs `job` by rows or blocks of the grid of its result, x and (backward) dy.
void run_strided(Stream&, const Grid&, const kernels::KernelTable&, const kernels::Activation& job);

}  // namespace polymio::activation
