// Tiles of attention for NVIDIA's matrix units, sm80 and later: IN is fp16 or bf16, HEAD at most 128. A warp has 16
// rows of a tile of 64; the layout of its products in registers is that of the first operand of the next product.
// Algorithm: Dao, FlashAttention-2, 2023.
// SPDX-License-Identifier: MIT
#pragma once
#define KIND_fp16 2
#define KIND_bf16 3
#include "kernels/gpu/portable/attention.h"
#define IN_KIND PASTE(KIND_, IN)
typedef u16 in_t;
#include "kernels/gpu/portable/matrix_units.h"

#define MATRIX_THREADS 128
#define LINE (HEAD + 8)  // elements of a row in local memory: 8 rows are in different banks
#define BLOCKS_OF_HEAD (HEAD / 8)

INLINE u32 pair_of(float low, float high) {
  return (u32)bits_of_float(IN_TYPE, low) | (u32)bits_of_float(IN_TYPE, high) << 16;
}
/// `rows` rows of tokens in local memory, zeros behind the last token and element.
INLINE void load_tile(LOCAL u16* to, Tokens from, const int rows, Shape s) {
  for (int i = THREAD(0); i < rows * (HEAD / 8); i += MATRIX_THREADS) {
    const int row = i / (HEAD / 8), e = i % (HEAD / 8) * 8, token = from.token + row;
    GLOBAL const u16* const at = (GLOBAL const u16*)from.data + from.at.first + (i64)token * from.at.step + e;
    u32x4 v = {0, 0, 0, 0};
    if (token < from.tokens && s.is_aligned && e < s.head_size) {
      v = *(GLOBAL const u32x4*)at;
    } else if (token < from.tokens) {
      u16 single[8];
      UNROLL
      for (int j = 0; j < 8; ++j) single[j] = e + j < s.head_size ? at[j] : (u16)0;
      v.x = single[0] | (u32)single[1] << 16;
      v.y = single[2] | (u32)single[3] << 16;
      v.z = single[4] | (u32)single[5] << 16;
      v.w = single[6] | (u32)single[7] << 16;
    }
    *(LOCAL u32x4*)(to + row * LINE + e) = v;
  }
}

/// The operand of 16 rows from `row` on and of 16 columns from `column` on.
INLINE void load_operand(LOCAL const u16* tile, int row, int column, u32* v) {
  const int lane = THREAD(0) % 32;
  load_4_blocks(local_address(tile + (row + lane % 16) * LINE + column + lane / 16 * 8), v);
}
/// sums (16 x rows) += a b', for rows of b in local memory, `blocks` times 8 of them. `operand` gives a.
#define MULTIPLY_ROWS(operand, b, blocks, sums)                                                                    \
  UNROLL                                                                                                           \
  for (int d = 0; d < HEAD / 16; ++d) {                                                                            \
    u32 a[4];                                                                                                      \
    operand(d, a);                                                                                                 \
    UNROLL                                                                                                         \
    for (int n = 0; n < (blocks); n += 2) {                                                                        \
      const int lane_ = THREAD(0) % 32;                                                                            \
      u32 of_b[4];                                                                                                 \
      load_4_blocks(local_address((b) + (n * 8 + lane_ / 16 * 8 + lane_ % 8) * LINE + d * 16 + lane_ / 8 % 2 * 8), \
                    of_b);                                                                                         \
      mma_16x8x16(a, of_b, (sums)[n]);                                                                             \
      mma_16x8x16(a, of_b + 2, (sums)[n + 1]);                                                                     \
    }                                                                                                              \
  }

/// sums (16 x HEAD) += a b, for a of 16 columns and b of 16 rows in local memory.
INLINE void add_product_of_16(const u32* a, LOCAL const u16* b, float (*sums)[4]) {
  const int lane = THREAD(0) % 32;
  UNROLL
  for (int d = 0; d < BLOCKS_OF_HEAD; d += 2) {
    u32 of_b[4];
    load_4_transposed(local_address(b + (lane / 8 % 2 * 8 + lane % 8) * LINE + d * 8 + lane / 16 * 8), of_b);
    mma_16x8x16(a, of_b, sums[d]);
    mma_16x8x16(a, of_b + 2, sums[d + 1]);
  }
}

/// Stores rows `row` and row + 8 of a result, and returns the largest magnitude before `scale`.
INLINE float store_pairs(float (*sums)[4], GLOBAL u8* to, Place at, int row, int tokens, int head_size,
                         const float* factors, float scale) {
  float largest = 0;
  UNROLL
  for (int half = 0; half < 2; ++half) {
    const int token = row + 8 * half;
    if (token >= tokens) continue;
    GLOBAL u16* const line = (GLOBAL u16*)to + at.first + (i64)token * at.step;
    UNROLL
    for (int i = 0; i < 2 * BLOCKS_OF_HEAD; ++i) {
      const int e = i / 2 * 8 + THREAD(0) % 4 * 2 + i % 2;
      const float result = sums[i / 2][2 * half + i % 2] * factors[half];
      if (e >= head_size) continue;
      largest = MAX(result < 0 ? -result : result, largest);
      line[e] = (u16)bits_of_float(IN_TYPE, result * scale);
    }
  }
  return largest;
}

/// Thread 0 stores the largest of two values of each thread.
INLINE void store_largest(LOCAL float* parts, float first, float second, GLOBAL float* magnitudes) {
  BARRIER();
  parts[THREAD(0)] = first;
  parts[MATRIX_THREADS + THREAD(0)] = second;
  for (int step = MATRIX_THREADS / 2; step > 0; step /= 2) {
    BARRIER();
    if (THREAD(0) >= step) continue;
    for (int i = THREAD(0); i < 2 * MATRIX_THREADS; i += MATRIX_THREADS) parts[i] = MAX(parts[i + step], parts[i]);
  }
  if (THREAD(0) == 0) {
    magnitudes[BLOCK(0)] = parts[0];
    magnitudes[BLOCKS(0) + BLOCK(0)] = parts[MATRIX_THREADS];
  }
}
