// Attention of 64 queries of a head per block by NVIDIA's matrix units, sm80 and later: fp16 and bf16, head sizes up to
// 128. A warp has 16 queries, whose operand, scores and results stay in its registers: the layout of products is that
// of the first operand of the next product. Algorithm: Dao, FlashAttention-2, 2023.
// SPDX-License-Identifier: MIT
#define KIND_fp16 2
#define KIND_bf16 3
#include "kernels/gpu/portable/attention.h"
#define IN_KIND PASTE(KIND_, IN)
typedef u16 in_t;
#include "kernels/gpu/portable/matrix_units.h"

#define MATRIX_THREADS 128
#define KEYS 64
#define LINE (HEAD + 8)  // elements of a row in local memory: 8 rows are in different banks
#define BLOCKS_OF_KEYS (KEYS / 8)
#define BLOCKS_OF_HEAD (HEAD / 8)

INLINE u32 pair_of(float low, float high) {
  return (u32)bits_of_float(IN_TYPE, low) | (u32)bits_of_float(IN_TYPE, high) << 16;
}
/// 2^v.
INLINE float power_of_2(float v) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(v));
  return result;
}
/// Over the four lanes that share rows.
INLINE float quad_max(float v) {
  v = MAX(__shfl_xor_sync(0xffffffffu, v, 1), v);
  return MAX(__shfl_xor_sync(0xffffffffu, v, 2), v);
}
INLINE float quad_sum(float v) {
  v += __shfl_xor_sync(0xffffffffu, v, 1);
  return v + __shfl_xor_sync(0xffffffffu, v, 2);
}

/// KEYS rows of tokens in local memory, zeros behind the last token and element.
INLINE void load_tile(LOCAL u16* to, Tokens from, Shape s) {
  for (int i = THREAD(0); i < KEYS * (HEAD / 8); i += MATRIX_THREADS) {
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

/// The running maximum, in powers of 2, and sum of two rows, and this call's factors of their results.
typedef struct {
  float largest[2], sum[2], factor[2];
} Running;

/// Scores become weights. Rows of a thread: query and query + 8; columns: key + 8 * block and the next one.
INLINE void weigh(float (*scores)[4], Running* r, GLOBAL const Scalars* scalars, GLOBAL const float* bias,
                  Place of_bias, Shape s, float of_scores, int head, int query, int key) {
  const float none = FLOAT_OF_BITS(0xff800000u), log2_e = 1.4426950408889634f;
  UNROLL
  for (int half = 0; half < 2; ++half) {
    float most = none;
    UNROLL
    for (int i = 0; i < 2 * BLOCKS_OF_KEYS; ++i) {
      float* const v = &scores[i / 2][2 * half + i % 2];
      *v = score_of(*v, of_scores, bias, of_bias, s, query + 8 * half, key + i / 2 * 8 + i % 2);
      most = MAX(*v, most);
    }
    const float before = r->largest[half], now = MAX(quad_max(most), before);
    const float shift = now == none ? 0 : now;
    float total = 0;
    UNROLL
    for (int i = 0; i < 2 * BLOCKS_OF_KEYS; ++i) {
      float* const v = &scores[i / 2][2 * half + i % 2];
      const float weight = power_of_2((*v - shift) * log2_e);
      total += weight;
      *v = weight;
      if (scalars->drops && weight != 0)
        *v = weight * kept_factor(scalars, score_number(s, head, query + 8 * half, key + i / 2 * 8 + i % 2));
    }
    r->factor[half] = before == none ? 1 : power_of_2((before - shift) * log2_e);
    r->sum[half] = r->sum[half] * r->factor[half] + quad_sum(total);
    r->largest[half] = now;
  }
}

KERNEL THREADS_PER_BLOCK(MATRIX_THREADS)
    forward(GLOBAL const u8* q, GLOBAL const u8* k, GLOBAL const u8* v, GLOBAL u8* o, GLOBAL const float* bias,
            GLOBAL float* m, GLOBAL float* z_inv, GLOBAL const Scalars* scalars, GLOBAL float* magnitudes,
            const Strides strides, const Shape s) {
  SHARED u32x4 memory[2 * KEYS * LINE / 8];
  LOCAL u16* const of_keys = (LOCAL u16*)memory;
  LOCAL u16* const of_values = of_keys + KEYS * LINE;
  const int blocks = CEIL_DIV(s.queries, ROWS), head = BLOCK(0) / blocks;
  const int first = (blocks - 1 - BLOCK(0) % blocks) * ROWS;  // blocks with more visible keys first
  const int warp = THREAD(0) / 32, lane = THREAD(0) % 32, row = lane % 8, block = lane / 8;
  const int query = first + warp * 16 + lane / 4;  // and query + 8
  const Place of_k = place_of(strides.step[1], head, s.heads), of_v = place_of(strides.step[2], head, s.heads);
  const Place of_o = place_of(strides.step[3], head, s.heads), of_bias = place_of(strides.step[4], head, s.heads);
  const float of_scores = s.scale * scalars->value[DESCALE_Q] * scalars->value[DESCALE_K];
  const int end = s.causal ? MIN(s.keys, first + ROWS) : s.keys;

  u32 queries[HEAD / 16][4];
  load_tile(of_keys, tokens_of(q, place_of(strides.step[0], head, s.heads), first, s.queries), s);
  BARRIER();
  UNROLL
  for (int d = 0; d < HEAD / 16; ++d)
    load_4_blocks(local_address(of_keys + (warp * 16 + block % 2 * 8 + row) * LINE + d * 16 + block / 2 * 8),
                  queries[d]);

  float sums[BLOCKS_OF_HEAD][4];
  UNROLL
  for (int i = 0; i < 4 * BLOCKS_OF_HEAD; ++i) sums[i / 4][i % 4] = 0;
  const float none = FLOAT_OF_BITS(0xff800000u);
  Running r = {{none, none}, {0, 0}, {1, 1}};
  NO_UNROLL
  for (int key = 0; key < end; key += KEYS) {
    BARRIER();
    load_tile(of_keys, tokens_of(k, of_k, key, s.keys), s);
    load_tile(of_values, tokens_of(v, of_v, key, s.keys), s);
    BARRIER();
    float scores[BLOCKS_OF_KEYS][4];
    UNROLL
    for (int i = 0; i < 4 * BLOCKS_OF_KEYS; ++i) scores[i / 4][i % 4] = 0;
    UNROLL
    for (int d = 0; d < HEAD / 16; ++d) {
      UNROLL
      for (int n = 0; n < BLOCKS_OF_KEYS; n += 2) {
        u32 b[4];
        load_4_blocks(local_address(of_keys + (n * 8 + block / 2 * 8 + row) * LINE + d * 16 + block % 2 * 8), b);
        mma_16x8x16(queries[d], b, scores[n]);
        mma_16x8x16(queries[d], b + 2, scores[n + 1]);
      }
    }
    weigh(scores, &r, scalars, bias, of_bias, s, of_scores, head, query, key + lane % 4 * 2);
    UNROLL
    for (int i = 0; i < 4 * BLOCKS_OF_HEAD; ++i) sums[i / 4][i % 4] *= r.factor[i % 4 / 2];
    UNROLL
    for (int n = 0; n < BLOCKS_OF_KEYS; n += 2) {
      const u32 weights[4] = {pair_of(scores[n][0], scores[n][1]), pair_of(scores[n][2], scores[n][3]),
                              pair_of(scores[n + 1][0], scores[n + 1][1]), pair_of(scores[n + 1][2], scores[n + 1][3])};
      UNROLL
      for (int d = 0; d < BLOCKS_OF_HEAD; d += 2) {
        u32 b[4];
        load_4_transposed(local_address(of_values + (n * 8 + block % 2 * 8 + row) * LINE + d * 8 + block / 2 * 8), b);
        mma_16x8x16(weights, b, sums[d]);
        mma_16x8x16(weights, b + 2, sums[d + 1]);
      }
    }
  }

  const float factor = scalars->value[DESCALE_S] * scalars->value[DESCALE_V] * scalars->value[SCALE_S];
  float largest_s = 0, largest_o = 0;
  UNROLL
  for (int half = 0; half < 2; ++half) {
    const int at = query + 8 * half;
    if (at >= s.queries) continue;
    const float inverse = 1 / r.sum[half];
    largest_s = MAX(inverse, largest_s);
    if (s.has_statistics && lane % 4 == 0) {
      m[(i64)head * s.queries + at] = r.largest[half];
      z_inv[(i64)head * s.queries + at] = inverse;
    }
    GLOBAL u16* const to = (GLOBAL u16*)o + of_o.first + (i64)at * of_o.step;
    UNROLL
    for (int i = 0; i < 2 * BLOCKS_OF_HEAD; ++i) {
      const int e = i / 2 * 8 + lane % 4 * 2 + i % 2;
      const float result = sums[i / 2][2 * half + i % 2] * (factor * inverse);
      if (e >= s.head_size) continue;
      largest_o = MAX(result < 0 ? -result : result, largest_o);
      to[e] = (u16)bits_of_float(IN_TYPE, result * scalars->value[SCALE_O]);
    }
  }
  LOCAL float* const parts = (LOCAL float*)memory;
  BARRIER();
  parts[THREAD(0)] = largest_s;
  parts[MATRIX_THREADS + THREAD(0)] = largest_o;
  for (int step = MATRIX_THREADS / 2; step > 0; step /= 2) {
    BARRIER();
    if (THREAD(0) >= step) continue;
    parts[THREAD(0)] = MAX(parts[THREAD(0) + step], parts[THREAD(0)]);
    parts[MATRIX_THREADS + THREAD(0)] =
        MAX(parts[MATRIX_THREADS + THREAD(0) + step], parts[MATRIX_THREADS + THREAD(0)]);
  }
  if (THREAD(0) == 0) {
    magnitudes[BLOCK(0)] = parts[0];
    magnitudes[BLOCKS(0) + BLOCK(0)] = parts[MATRIX_THREADS];
  }
}
