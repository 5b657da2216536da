// Solvers for convolutions with an epilogue. A solver that refuses the epilogue is composed with a pass over y, under
// its own name and id.
// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "primitives/convolution/convolution.h"

namespace polymio::convolution {

/// Every solver for the problem on the CPU or on GPUs, in order of preference at equal times.
SolverList solvers(const Problem&, DeviceKind = DeviceKind::kCpu);

/// On GPUs: the kernel that makes a scale and a bias of the batch norm of an epilogue, and of its bias if it has one.
std::vector<KernelSpec> norm_programs(const DeviceInfo&, const Problem&);

}  // namespace polymio::convolution
