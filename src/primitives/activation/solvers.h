// What the solvers share.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/kernels.h"
#include "primitives/activation/activation.h"
#include "primitives/activation/grid.h"

namespace polymio::activation {

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
