// How the kernels for sm90 store gradients of weights. A thread has pairs of channels, 8 apart, of kChannels.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/sm90/conv_shape.h"
#include "kernels/gpu/sm90/transpose.cuh"

namespace sm90 {

/// The sums of a thread, from[0], from[1], from[4], ..., of which those of the first `left` channels exist, as they
/// are.
template <int kChannels = 64>
DEVICE void store_partials(float* to, int left, const float* from) {
  UNROLL
  for (int c = 0; c < kChannels / 8; ++c) {
    const int channel = 8 * c + 2 * (threadIdx.x % 4);
    if (channel < left) *reinterpret_cast<float2*>(to + channel) = make_float2(from[4 * c], from[4 * c + 1]);
  }
}

/// alpha * sums + beta * old. All lanes of the warp call this with the same `left`.
template <class Element, int kChannels = 64>
DEVICE void store_elements(float* to, int left, const float* from, float alpha, float beta) {
  UNROLL
  for (int c = 0; c < kChannels / 8; ++c) {
    const int channel = 8 * c + 2 * (threadIdx.x % 4);
    if (channel >= left) continue;
    float2* const pair = reinterpret_cast<float2*>(to + channel);
    float2 v = make_float2(alpha * from[4 * c], alpha * from[4 * c + 1]);
    if (beta != 0) v = make_float2(FMA(beta, pair->x, v.x), FMA(beta, pair->y, v.y));
    *pair = v;
  }
}
template <class Element, int kChannels = 64>
DEVICE void store_elements(u16* to, int left, const float* from, float alpha, float beta) {
  if (beta == 0) {
    // Four lanes have 8 channels in a row: they exchange pairs, so that each stores 16 bytes.
    UNROLL
    for (int c = 0; c < kChannels / 8; c += 4) {
      u32 pairs[4];
      UNROLL
      for (int i = 0; i < 4; ++i) pairs[i] = Element::pack(alpha * from[4 * (c + i)], alpha * from[4 * (c + i) + 1]);
      transpose_four(pairs);
      const int channel = 8 * (c + threadIdx.x % 4);
      if (channel < left) *reinterpret_cast<uint4*>(to + channel) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    }
    return;
  }
  UNROLL
  for (int c = 0; c < kChannels / 8; ++c) {
    const int channel = 8 * c + 2 * (threadIdx.x % 4);
    if (channel >= left) continue;
    u32* const pair = reinterpret_cast<u32*>(to + channel);
    const float low = FMA(beta, Element::low(*pair), alpha * from[4 * c]),
                high = FMA(beta, Element::high(*pair), alpha * from[4 * c + 1]);
    *pair = Element::pack(low, high);
  }
}

}  // namespace sm90
