// The epilogue of a forward convolution on the CPU: per element, per tile of a kernel, or as a pass over y.
// SPDX-License-Identifier: MIT
#pragma once
#include "primitives/convolution/convolution.h"

namespace polymio::kernels {
struct ActivationKernels;
struct Epilogue;
}  // namespace polymio::kernels

namespace polymio::convolution {

/// Refuses unsupported epilogues; accepts problems without one.
Verdict check_epilogue(const Problem&);

/// The problem's epilogue with the parameters of a call; y has no data, rows and columns yet.
kernels::Epilogue epilogue_job(const Problem&, const Problem::Args&);

/// The value v of a channel, at `offset` of y, with scale, bias and residual, in double.
double combine(const Problem&, const Problem::Args&, double v, std::int64_t channel, std::int64_t offset);
/// The problem's activation of one value, in double.
double activate(const kernels::ActivationKernels&, const Problem&, const Problem::Args&, double v);

/// Applies the epilogue to all of y.
Solver<Problem>::Invoker epilogue_pass(Stream&, const Problem&);

/// Microseconds of epilogue_pass.
double epilogue_us(const DeviceInfo&, const Problem&);

}  // namespace polymio::convolution
