// Attention on sm90: products of a warpgroup with 64 rows of a matrix of scores. A thread has rows lane / 4 and
// lane / 4 + 8 of its warp's 16, and pairs of columns 8 apart: element 4 * j + 2 * half + e of its sums is in column
// 8 * j + 2 * (lane % 4) + e. Algorithm: Dao, FlashAttention-2, 2023; Shah et al., FlashAttention-3, 2024.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/sm90/attention_shape.h"
#include "kernels/gpu/sm90/power.cuh"
#include "kernels/gpu/sm90/tensor_map.cuh"
#include "kernels/gpu/sm90/transpose.cuh"
#include "kernels/gpu/portable/attention_kept.h"

namespace sm90 {

constexpr float kLog2E = 1.4426950408889634f;

/// The thread's first row and column of the product of a warpgroup.
DEVICE int own_row() { return int(threadIdx.x) % 128 / 32 * 16 + int(threadIdx.x) % 32 / 4; }
DEVICE int own_column() { return 2 * int(threadIdx.x % 4); }

DEVICE float minus_infinity() { return FLOAT_OF_BITS(0xff800000u); }

/// Tiles of tokens are stored as boxes of 64 elements of the tokens' heads, 128 bytes each.
template <int kHead>
constexpr int kBoxesOf = (kHead + 63) / 64;

/// A head of all batches.
struct Head {
  int number, batch, head;  // number in all; head of the batch

  DEVICE Head(int n, int heads) : number(n), batch(n / heads), head(n % heads) {}
  DEVICE i64 start(const AttentionStrides& s) const { return batch * s.batch + head * s.head; }
};

/// Of a block: a head, its first query of kRows, and the number of tiles of keys. Blocks that see more keys come first.
template <int kRows, int kKeys>
struct QueryPlace {
  Head head;
  int first, tiles;

  DEVICE explicit QueryPlace(const AttentionShape& s) : head(0, 1) {
    const int blocks = (s.queries + kRows - 1) / kRows;
    head = Head(blockIdx.x / blocks, s.heads);
    first = (blocks - 1 - int(blockIdx.x % blocks)) * kRows;
    const int end = s.causal ? min(s.keys, first + kRows) : s.keys;
    tiles = (end + kKeys - 1) / kKeys;
  }
};

template <int kHead>
DEVICE void load_tokens(u32 shared, const TensorMap& map, const Barrier& full, const Head& h, int token, int tokens) {
  UNROLL
  for (int b = 0; b < kBoxesOf<kHead>; ++b)
    load_box(shared + b * tokens * kRowBytes, map, full, 64 * b, token, h.head, h.batch);
}

/// s = a b' for 64 tokens and a tile of tokens, with their heads as depth. A box of a and of b has so many bytes.
template <int kHead, int kColumns>
DEVICE void multiply_tokens(float (&s)[kColumns / 2], u64 a, u32 a_box, u64 b) {
  UNROLL
  for (int d = 0; d < kHead / 16; ++d)
    multiply(s, a + d / 4 * (a_box / 16) + 2 * (d % 4), b + d / 4 * (kColumns * kRowBytes / 16) + 2 * (d % 4), d);
}

/// sums (64 x head) = p b, or + p b, for a tile of kDepth tokens.
template <int kHead, int kDepth>
DEVICE void add_product(float (&sums)[kHead / 2], const u32 (&p)[kDepth / 16][4], u64 b, int accumulate) {
  UNROLL
  for (int i = 0; i < kDepth / 16; ++i) multiply(sums, p[i], b + i * kRowBytes, accumulate | i);
}

/// Sums as the first operand of a product.
template <class Element, int kColumns>
DEVICE void pack(u32 (&p)[kColumns / 16][4], const float (&s)[kColumns / 2]) {
  UNROLL
  for (int i = 0; i < kColumns / 4; ++i) p[i / 4][i % 4] = Element::pack(s[2 * i], s[2 * i + 1]);
}

DEVICE float of_lane(float v, int mask) { return FLOAT_OF_BITS(__shfl_xor_sync(~0u, BITS_OF_FLOAT(v), mask)); }
/// Of the four lanes that share rows.
DEVICE float quad_max(float v) {
  v = fmaxf(v, of_lane(v, 1));
  return fmaxf(v, of_lane(v, 2));
}
DEVICE float quad_sum(float v) {
  v += of_lane(v, 1);
  return v + of_lane(v, 2);
}

/// How products become scores, which are powers of e. Scores without a bias and with a positive factor stay products.
template <bool kBias>
struct Scaling {
  float factor;
  bool multiplies;

  DEVICE Scaling(const AttentionShape& s, const Scalars& scalars)
      : factor(s.scale * scalars.value[DESCALE_Q] * scalars.value[DESCALE_K]), multiplies(kBias || !(factor > 0)) {}
  /// Of 2 for scores.
  DEVICE float to_powers() const { return multiplies ? kLog2E : factor * kLog2E; }

  template <int kColumns>
  DEVICE void apply(float (&s)[kColumns]) const {
    if (!multiplies) return;
    UNROLL
    for (int i = 0; i < kColumns; ++i) s[i] *= factor;
  }
};

/// Adds the bias at `from`, of the thread's first row and column; so many rows and columns exist from there on.
template <int kSums>
DEVICE void add_bias(float (&s)[kSums], const float* from, i64 row_step, i64 column_step, int rows, int columns) {
  UNROLL
  for (int half = 0; half < 2; ++half) UNROLL
  for (int i = 0; i < kSums / 2; ++i) {
    const int n = i / 2 * 8 + i % 2;
    if (8 * half < rows && n < columns) s[i / 2 * 4 + 2 * half + i % 2] += from[8 * half * row_step + n * column_step];
  }
}

/// Only the first `visible` columns of a row of the thread are seen, from its own first column on.
template <int kSums>
DEVICE void hide_columns(float (&s)[kSums], int half, int visible) {
  UNROLL
  for (int i = 0; i < kSums / 2; ++i)
    if (i / 2 * 8 + i % 2 >= visible) s[i / 2 * 4 + 2 * half + i % 2] = minus_infinity();
}

/// Products of a warpgroup's queries from `first` on, the thread's own from `query` on, and of keys become scores.
template <bool kBias, int kSums, class Arguments>
DEVICE void make_scores(float (&s)[kSums], const Arguments& a, const Scaling<kBias>& scaling, const Head& head,
                        int first, int query, int key) {
  const AttentionShape& shape = a.shape;
  const int own_key = key + own_column();
  scaling.apply(s);
  if constexpr (kBias)
    add_bias(s, a.bias + head.start(a.of_bias) + query * a.of_bias.token + own_key, a.of_bias.token, 1,
             shape.queries - query, shape.keys - own_key);
  if (key + 2 * kSums <= shape.keys && !(shape.causal && key + 2 * kSums - 1 > first)) return;
  UNROLL
  for (int half = 0; half < 2; ++half)
    hide_columns(s, half, (shape.causal ? min(shape.keys, query + 8 * half + 1) : shape.keys) - own_key);
}

/// The number of a score in the matrices of all heads.
DEVICE u64 score_number(const AttentionShape& s, const Head& head, int query, int key) {
  return (u64(head.number) * s.queries + query) * s.keys + key;
}

/// Bit i: whether dropout keeps score 32 * part + i of the thread. `first` is the number of the score in its first row
/// and column.
DEVICE u32 kept_scores(const Scalars* scalars, int part, u64 first, u64 row_step, u64 column_step) {
  u32 bits = 0;
  NO_UNROLL
  for (int i = 0; i < 32; ++i) {
    const int n = 32 * part + i;
    const u64 number = first + (n / 2 % 2 * 8) * row_step + (n / 4 * 8 + n % 2) * column_step;
    bits |= (kept_factor(scalars, number) != 0 ? 1u : 0u) << i;
  }
  return bits;
}

/// Stores 64 rows of sums * factor * scale, of which those before `tokens` exist; returns the largest magnitude before
/// `scale`. `to` is the thread's first row, `token` its number. Head sizes are multiples of 8.
template <class Element, int kHead>
DEVICE float store_sums(const float (&sums)[kHead / 2], u16* to, i64 token_step, int token, int tokens, int head_size,
                        const float (&factor)[2], float scale) {
  float largest = 0;
  UNROLL
  for (int half = 0; half < 2; ++half) {
    const bool inside = token + 8 * half < tokens;
    UNROLL
    for (int c = 0; c < kHead / 8; c += 4) {
      u32 pairs[4] = {};
      UNROLL
      for (int i = 0; i < 4; ++i) {
        if (c + i >= kHead / 8) continue;
        const float low = sums[4 * (c + i) + 2 * half] * factor[half],
                    high = sums[4 * (c + i) + 2 * half + 1] * factor[half];
        if (inside) largest = fmaxf(largest, fmaxf(fabsf(low), fabsf(high)));
        pairs[i] = Element::pack(low * scale, high * scale);
      }
      transpose_four(pairs);
      const int column = 8 * (c + threadIdx.x % 4);
      if (inside && column < head_size)
        *reinterpret_cast<uint4*>(to + 8 * half * token_step + column) =
            make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    }
  }
  return largest;
}

/// The largest of two non-negative numbers of each thread of a block's consumers. `parts`: 8 bytes for each warp.
template <int kConsumers>
DEVICE void store_largest(u32 parts, int barrier, float first, float second, float* magnitudes) {
  UNROLL
  for (int mask = 16; mask > 0; mask /= 2) {
    first = fmaxf(first, of_lane(first, mask));
    second = fmaxf(second, of_lane(second, mask));
  }
  const int thread = threadIdx.x - 128;
  if (thread % 32 == 0) store_shared(parts + thread / 32 * 8, make_float2(first, second));
  meet(barrier, 128 * kConsumers);
  if (thread > 0) return;
  NO_UNROLL
  for (int i = 1; i < 4 * kConsumers; ++i) {
    const float2 v = load_shared<float2>(parts + i * 8);
    first = fmaxf(first, v.x);
    second = fmaxf(second, v.y);
  }
  magnitudes[blockIdx.x] = first;
  magnitudes[gridDim.x + blockIdx.x] = second;
}

}  // namespace sm90
