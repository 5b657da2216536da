// Direct forward convolution, fp32: sums stay in registers over all channels and taps.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "kernels/cpu/conv_gemm.h"

namespace polymio::kernels {

/// Channels first: the innermost spatial strides of x and y are 1. Channels last: the channel strides of
/// x and y are 1.
struct Direct {
  ConvShape shape;
  bool channels_last = false;
  std::int64_t rows = 1;  // output rows (channels first) or pixels (channels last) of one piece
  const float* x = nullptr;
  const float* w = nullptr;
  float* y = nullptr;
  float alpha = 1, beta = 0;  // beta == 0: y is never read
  /// Row blocks of an image and group, or pixel blocks of a group.
  std::int64_t pieces() const;
  std::int64_t depth() const { return shape.c * shape.taps[0] * shape.taps[1] * shape.taps[2]; }
};

}  // namespace polymio::kernels
