// What the solvers of depthwise convolution along one dimension on NVIDIA's matrix units share.
// SPDX-License-Identifier: MIT
#pragma once
#include "primitives/convolution/convolution.h"

namespace polymio::convolution::cuda {

/// Whether all tensors are fp16, or all bf16.
bool has_16_bits(const Problem&);

/// Whether a device with matrix units has such a problem: one input and one output channel per group,
/// gpu::long_dimension with stride and dilation 1.
Verdict check_depthwise_1d(const DeviceInfo&, const Problem&);

/// Whether eight neighbouring channels of x and y can be read and written together.
bool has_channel_vectors(const Problem&);

}  // namespace polymio::convolution::cuda
