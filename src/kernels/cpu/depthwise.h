// Depthwise convolution (one input channel a group) without a matrix product, fp32 and fp64.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/conv_gemm.h"

namespace polymio::kernels {

/// shape.c == 1; shape.k is the multiplier. Channels first: the innermost spatial strides of x and y
/// are 1. Channels last: the channel strides are 1 and the multiplier is 1.
struct Depthwise {
  ConvShape shape;
  ConvDirection direction = ConvDirection::kForward;
  bool channels_last = false;
  const void* x = nullptr;  // the direction's inputs; its output goes to `result`
  const void* w = nullptr;
  const void* y = nullptr;
  void* result = nullptr;
  double alpha = 1, beta = 0;  // beta == 0: the result is never read
  /// Independent pieces of work: planes of an image, rows of pixels, or channels for weights.
  std::int64_t pieces() const;
};

/// Channels that one piece of backward weights covers with channels last.
inline constexpr std::int64_t kChannelBlock = 64;

/// One dimension of backward data at positions phase + i * stride, i < pixels: taps first_tap +
/// t * tap_step, t < taps, reach position origin + i + t * tap_move of dy.
struct PhaseWindow {
  std::int64_t pixels, taps, origin, tap_move, first_tap, tap_step;
};
PhaseWindow phase_window(const ConvShape& shape, int dim, std::int64_t phase);

}  // namespace polymio::kernels
