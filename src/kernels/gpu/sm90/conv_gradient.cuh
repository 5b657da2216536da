// How the kernels for sm90 store gradients of weights. A thread has pairs of channels, 8 apart, of a slab of 64.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/sm90/conv_shape.h"
#include "kernels/gpu/sm90/warpgroup.cuh"
#include "kernels/gpu/portable/portable.h"

namespace sm90 {

/// The sums of a thread, from[0], from[1], from[4], ..., of which those of the first `left` channels exist, as they
/// are.
DEVICE void store_partials(float* to, int left, const float* from) {
  UNROLL
  for (int c = 0; c < 8; ++c) {
    const int channel = 8 * c + 2 * (threadIdx.x % 4);
    if (channel < left) *reinterpret_cast<float2*>(to + channel) = make_float2(from[4 * c], from[4 * c + 1]);
  }
}

/// alpha * sums + beta * old.
template <class Element>
DEVICE void store_elements(u16* to, int left, const float* from, float alpha, float beta) {
  UNROLL
  for (int c = 0; c < 8; ++c) {
    const int channel = 8 * c + 2 * (threadIdx.x % 4);
    if (channel >= left) continue;
    u32* const pair = reinterpret_cast<u32*>(to + channel);
    float low = alpha * from[4 * c], high = alpha * from[4 * c + 1];
    if (beta != 0) {
      low = FMA(beta, Element::low(*pair), low);
      high = FMA(beta, Element::high(*pair), high);
    }
    *pair = Element::pack(low, high);
  }
}

}  // namespace sm90
