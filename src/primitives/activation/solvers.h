// Helpers of the CPU solvers.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/activation.h"
#include "primitives/activation/activation.h"
#include "primitives/activation/grid.h"

namespace polymio::activation {

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

kernels::Activation kernel_job(const Problem&, const Problem::Args&);

/// Calls body(first, end) on all threads for ranges of `part` elements.
void for_parts(Stream&, std::int64_t count, std::int64_t part, FunctionRef<void(std::int64_t, std::int64_t)> body);

/// Runs `job` by rows or blocks of the grid of its result, x and (backward) dy.
void run_strided(Stream&, const Grid&, const kernels::ActivationKernels&, const kernels::Activation& job);

}  // namespace polymio::activation
