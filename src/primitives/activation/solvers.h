// The solver objects that the list in solvers.cc is made of. One class serves both directions.
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

/// As they are used: float is exact unless the tensors are double.
Parameters rounded(const Parameters&, DataType);

/// The gated linear unit on a GPU: grids as of forward and backward problems of one half, and where the other begins.
std::vector<KernelSpec> gate_kernels(const DeviceInfo&, DataType);
void gate_forward(Stream&, const Grid&, DataType, const void* x, std::int64_t second, void* y);
void gate_backward(Stream&, const Grid&, DataType, const void* x, std::int64_t x_second, const void* dy, void* dx,
                   std::int64_t dx_second);

/// Microseconds that the arithmetic takes where memory does not count.
double arithmetic_us(const DeviceInfo&, const Problem&);

const kernels::KernelTable& kernel_table(const DeviceInfo&);
kernels::Activation kernel_job(const Problem&, const Problem::Args&);

/// Calls body(first, end) for parts of `part` elements on all threads.
void for_parts(Stream&, std::int64_t count, std::int64_t part, FunctionRef<void(std::int64_t, std::int64_t)> body);

/// The whole of `job`, by rows or blocks of the grid of its result, x and (backward) dy.
void run_strided(Stream&, const Grid&, const kernels::KernelTable&, const kernels::Activation& job);

}  // namespace polymio::activation
