// Counting the pieces of depthwise convolutions, and their backward phases.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/depthwise.h"

#include <algorithm>
#include <numeric>

namespace polymio::kernels {

std::int64_t Depthwise::pieces() const {
  if (direction == ConvDirection::kBackwardWeights) {
    return channels_last ? (shape.groups + kChannelBlock - 1) / kChannelBlock : shape.groups;
  }
  if (!channels_last) return shape.n * shape.groups;
  const std::int64_t* size = direction == ConvDirection::kForward ? shape.out : shape.in;
  return shape.n * size[0] * size[1];
}

PhaseWindow phase_window(const ConvShape& s, int d, std::int64_t phase) {
  const std::int64_t stride = s.stride[d], dilation = s.dilation[d];
  const std::int64_t divisor = std::gcd(stride, dilation), step = stride / divisor;
  PhaseWindow w{(s.in[d] - phase + stride - 1) / stride, 0, 0, -dilation / divisor, 0, step};
  for (std::int64_t r = 0; r < std::min(step, s.taps[d]); ++r) {
    const std::int64_t position = phase + s.pad[d] - r * dilation;
    if (position % stride != 0) continue;
    w.first_tap = r;
    w.origin = position / stride;
    w.taps = (s.taps[d] - r + step - 1) / step;
    break;
  }
  return w;
}

}  // namespace polymio::kernels
