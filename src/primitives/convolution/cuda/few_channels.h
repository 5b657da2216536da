// What the kernels for few channels share: limits, how they read tensors of 16-bit floats, estimates.
// SPDX-License-Identifier: MIT
#pragma once
#include "primitives/convolution/convolution.h"

namespace polymio::convolution::cuda {

inline constexpr std::int64_t kFewChannelsProducts = 1 << 14;  // of an element of the result and a channel

/// Of the device, the types and sizes, which are up to `most` along each dimension.
Verdict check_few_channels(const DeviceInfo&, const Problem&, std::int64_t most);

/// Whether all strides but that of a dimension are multiples of `unit`.
bool few_channels_divides(const TensorDesc&, int unit, int dimension);

/// Elements that a kernel copies at once: `unit` channels if they are contiguous, or eight pixels of planes; else 2, of
/// which it reads each by itself.
int few_channels_load_unit(const TensorDesc&, int unit);

/// Time of a tile where a multiprocessor has so many blocks at once, relative to that of its work.
inline double few_channels_overlap(std::int64_t blocks) { return 0.5 + 0.9 / static_cast<double>(blocks); }

}  // namespace polymio::convolution::cuda
