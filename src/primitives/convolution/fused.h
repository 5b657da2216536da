// Solvers for convolutions with an epilogue. A solver that refuses the epilogue is composed with a pass over y, under
// its own name and id.
// SPDX-License-Identifier: MIT
#pragma once
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {

/// Every solver for the problem on the CPU or on GPUs, in order of preference at equal times.
SolverList solvers(const Problem&, DeviceKind = DeviceKind::kCpu);

}  // namespace polymio::convolution
