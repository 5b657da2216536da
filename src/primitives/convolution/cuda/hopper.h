// The solver that copies its operands for ConvHopper needs it as a GpuSolver.
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>

#include "core/kernel_builder.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution::cuda {

std::unique_ptr<const GpuSolver<Problem>> make_hopper(const SolverInfo&, Direction);

}  // namespace polymio::convolution::cuda
