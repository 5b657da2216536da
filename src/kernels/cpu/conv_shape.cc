// Packed strides of convolutions.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/conv_shape.h"

namespace polymio::kernels {

void set_packed_strides(ConvShape& s, bool channels_last) {
  const std::int64_t c = s.c * s.groups, k = s.k * s.groups;
  std::int64_t x = channels_last ? c : 1, w = channels_last ? s.c : 1, y = channels_last ? k : 1;
  for (int d = kSpatial - 1; d >= 0; --d) {
    s.x_d[d] = x;
    s.w_d[d] = w;
    s.y_d[d] = y;
    x *= s.in[d];
    w *= s.taps[d];
    y *= s.out[d];
  }
  s.x_c = channels_last ? 1 : x;
  s.w_c = channels_last ? 1 : w;
  s.y_k = channels_last ? 1 : y;
  s.x_n = channels_last ? x : x * c;
  s.w_k = channels_last ? w : w * s.c;
  s.y_n = channels_last ? y : y * k;
}

}  // namespace polymio::kernels
