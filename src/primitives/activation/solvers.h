// Helpers of the CPU solvers.
// SPDX-License-Identifier: MIT
#pragma once
#include "core/loop.h"
#include "primitives/activation/activation.h"
#include "primitives/common/map.h"

namespace polymio::kernels {
struct Activation;
}

namespace polymio::activation {

/// The parameters that kernels use: rounded to float unless the tensors are fp64.
Parameters rounded(const Parameters&, DataType);

/// The elements of y, x; or dx, x, dy.
Loop loop_of(const Problem&);

/// The gated linear unit on a GPU. The loop is that of the forward or backward problem of one half; `second` is the
/// offset of the other half, in elements.
std::vector<KernelSpec> gate_kernels(const DeviceInfo&, DataType);
void gate_forward(Stream&, const Loop&, DataType, const void* x, std::int64_t second, void* y);
void gate_backward(Stream&, const Loop&, DataType, const void* x, std::int64_t x_second, const void* dy, void* dx,
                   std::int64_t dx_second);

/// Microseconds of the arithmetic alone, without memory traffic.
double arithmetic_us(const DeviceInfo&, const Problem&);

kernels::Activation kernel_job(const Problem&, const Problem::Args&);

/// Runs `job` on tensors of any strides. The loop of the tiles is that of the problem.
void run_strided(Stream&, const Tiles&, const kernels::Activation& job);

}  // namespace polymio::activation
