// The solver that copies its operands for ConvHopper needs it as a GpuSolver.
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>

#include "core/kernel_builder.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution::cuda {

std::unique_ptr<const GpuSolver<Problem>> make_hopper(const SolverInfo&, Direction);

/// `most_bytes`: of copies of a problem that is not sliced.
std::unique_ptr<const GpuSolver<Problem>> make_hopper_packed(const SolverInfo&, Direction, std::int64_t most_bytes);

}  // namespace polymio::convolution::cuda
