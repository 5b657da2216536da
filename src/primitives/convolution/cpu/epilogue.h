// The epilogue of a forward convolution on the CPU: for one element, for a kernel's tile, as a pass over y.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/kernels.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {

/// Refuses epilogues that nothing here computes; says yes when there is none.
Verdict check_epilogue(const Problem&);

/// The problem's epilogue with the values of a call; where y lies is left out.
kernels::Epilogue epilogue_job(const Problem&, const Problem::Args&);

/// The bias of a channel, 0 without one; the activation in double.
double bias_of(const Problem&, const Problem::Args&, std::int64_t channel);
double activate(const kernels::KernelTable&, const Problem&, const Problem::Args&, double v);

/// Applies the epilogue to all of y.
Solver<Problem>::Invoker epilogue_pass(Stream&, const Problem&);

/// Microseconds of that.
double epilogue_us(const DeviceInfo&, const Problem&);

}  // namespace polymio::convolution
