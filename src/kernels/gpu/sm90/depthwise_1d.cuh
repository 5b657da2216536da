// What the kernels of depthwise convolution along one dimension share. With rows of eight results, result 8 b + i of a
// line is the sum over k of source[8 b + k] * taps[k - i]: the product of a matrix whose rows begin 8 elements apart in
// one line, and of a Toeplitz matrix of taps + 7 rows, which stays in registers or, where channels are contiguous, in
// shared memory. The gradient of the filter is the sum of diagonals of G[k][i], the sum over b of source[8 b + k] *
// dy[8 b + i]. A result that is NaN, perhaps because a zero of these matrices met an infinity, is computed from the
// products of the definition.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/sm90/conv_epilogue.cuh"
#include "kernels/gpu/sm90/conv_shape.h"
#include "kernels/gpu/sm90/warp.cuh"

namespace sm90 {

struct ConvDepthwise1dArguments {
  const u16 *source, *second;  // second: the taps, or dy
  const u16* bias;
  void* result;  // of the gradient of the filter fp32, [parts][channels][taps]
  ConvDepthwise1dShape shape;
};

/// What the kernels share. kDepth: rows of the Toeplitz matrix, in 16s.
template <class Element, int kDepth>
struct ConvDepthwise1d {
  static constexpr int kUnit = 8, kTile = 16 * kUnit;  // results of a row, and of a matrix product
  static constexpr int kGramPitch = kUnit + 1;         // in other banks
  static constexpr u32 kGramBytes = kDepth * 16 * kGramPitch * sizeof(float);

  static DEVICE u32 shared() {
    extern __shared__ __align__(1024) unsigned char bytes[];
    return shared_address(bytes);
  }

  /// The product of the definition for result `at`: of taps of `step`, `tap` the first.
  static DEVICE float exact(const u16* source, i64 source_step, const u16* tap, int step, const ConvDepthwise1dShape& s,
                            int at) {
    float sum = 0;
    NO_UNROLL
    for (int j = 0; j < s.taps; ++j)
      if (u32(at + s.first + j) < u32(s.source_size))
        sum = FMA(Element::of(source[(at + s.first + j) * source_step]), Element::of(tap[j * step]), sum);
    return sum;
  }

  /// The product of the definition for tap `j`, over results [from, end).
  static DEVICE float exact_gradient(const u16* source, i64 source_step, const u16* dy, i64 dy_step,
                                     const ConvDepthwise1dShape& s, int j, int from, int end) {
    float sum = 0;
    NO_UNROLL
    for (int at = from; at < end; ++at)
      if (u32(at + s.first + j) < u32(s.source_size))
        sum = FMA(Element::of(source[(at + s.first + j) * source_step]), Element::of(dy[at * dy_step]), sum);
    return sum;
  }

  /// The fragments of the Toeplitz matrix whose first row is that of tap -shift.
  template <bool kReversed>
  static DEVICE void load_taps(const u16* taps, int count, int shift, u32 (&to)[kDepth][2]) {
    const int first = threadIdx.x % 4 * 2 - threadIdx.x % 32 / 4 - shift;
    UNROLL
    for (int h = 0; h < 2 * kDepth; ++h) {
      u32 pair = 0;
      UNROLL
      for (int e = 0; e < 2; ++e) {
        const int j = first + kUnit * h + e;
        if (u32(j) < u32(count)) pair |= u32(taps[kReversed ? count - 1 - j : j]) << 16 * e;
      }
      to[h / 2][h % 2] = pair;
    }
  }

  static DEVICE bool has_nan(const float (&v)[4]) {
    const float sum = (v[0] + v[1]) + (v[2] + v[3]);
    return sum != sum;
  }

  /// G, to a warp's shared memory of kGramBytes.
  static DEVICE void store_gram(u32 gram, const float (&g)[kDepth][4]) {
    const int lane = threadIdx.x % 32;
    UNROLL
    for (int i = 0; i < kDepth * 4; ++i) {
      const int row = i / 4 * 16 + i % 4 / 2 * 8 + lane / 4, column = lane % 4 * 2 + i % 2;
      store_shared(gram + (row * kGramPitch + column) * 4, g[i / 4][i % 4]);
    }
    __syncwarp();
  }
  /// The sum of G[at + i][i] over i.
  static DEVICE float diagonal(u32 gram, int at) {
    float sum = 0;
    UNROLL
    for (int i = 0; i < kUnit; ++i) sum += load_shared<float>(gram + ((at + i) * kGramPitch + i) * 4);
    return sum;
  }
};

}  // namespace sm90
