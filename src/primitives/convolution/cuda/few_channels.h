// How the kernels for few channels read tensors of 16-bit floats, and what their estimates share.
// SPDX-License-Identifier: MIT
#pragma once
#include "core/tensor.h"

namespace polymio::convolution::cuda {

/// Whether all strides but that of a dimension are multiples of `unit`.
bool few_channels_divides(const TensorDesc&, int unit, int dimension);

/// Elements that a kernel copies at once: `unit` channels if they are contiguous, or eight pixels of planes; else 2, of
/// which it reads each by itself.
int few_channels_load_unit(const TensorDesc&, int unit);

/// Time of a tile where a multiprocessor has so many blocks at once, relative to that of its work.
inline double few_channels_overlap(std::int64_t blocks) { return 0.5 + 0.9 / static_cast<double>(blocks); }

}  // namespace polymio::convolution::cuda
