// Attention of 64 queries of a head per block by matrix units; the operand of a warp's queries, its scores and results
// stay in registers.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/attention_matrix.h"

#define KEYS 64
#define BLOCKS_OF_KEYS (KEYS / 8)

/// 2^v.
INLINE float power_of_2(float v) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(v));
  return result;
}
/// Over the four lanes that share rows.
INLINE float quad_max(float v) {
  const float next = __shfl_xor_sync(0xffffffffu, v, 1), pair = MAX(next, v);
  const float other = __shfl_xor_sync(0xffffffffu, pair, 2);
  return MAX(other, pair);
}
INLINE float quad_sum(float v) {
  v += __shfl_xor_sync(0xffffffffu, v, 1);
  return v + __shfl_xor_sync(0xffffffffu, v, 2);
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
    const float before = r->largest[half], of_row = quad_max(most), now = MAX(of_row, before);
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
  const int warp = THREAD(0) / 32, lane = THREAD(0) % 32;
  const int query = first + warp * 16 + lane / 4;  // and query + 8
  const Place of_k = place_of(strides.step[1], head, s.heads), of_v = place_of(strides.step[2], head, s.heads);
  const Place of_o = place_of(strides.step[3], head, s.heads), of_bias = place_of(strides.step[4], head, s.heads);
  const float of_scores = s.scale * scalars->value[DESCALE_Q] * scalars->value[DESCALE_K];
  const int end = s.causal ? MIN(s.keys, first + ROWS) : s.keys;

  u32 queries[HEAD / 16][4];
  load_tile(of_keys, tokens_of(q, place_of(strides.step[0], head, s.heads), first, s.queries), ROWS, s);
  BARRIER();
  UNROLL
  for (int d = 0; d < HEAD / 16; ++d) load_operand(of_keys, warp * 16, d * 16, queries[d]);

  float sums[BLOCKS_OF_HEAD][4];
  UNROLL
  for (int i = 0; i < 4 * BLOCKS_OF_HEAD; ++i) sums[i / 4][i % 4] = 0;
  const float none = FLOAT_OF_BITS(0xff800000u);
  Running r = {{none, none}, {0, 0}, {1, 1}};
  NO_UNROLL
  for (int key = 0; key < end; key += KEYS) {
    BARRIER();
    load_tile(of_keys, tokens_of(k, of_k, key, s.keys), KEYS, s);
    load_tile(of_values, tokens_of(v, of_v, key, s.keys), KEYS, s);
    BARRIER();
    float scores[BLOCKS_OF_KEYS][4];
    UNROLL
    for (int i = 0; i < 4 * BLOCKS_OF_KEYS; ++i) scores[i / 4][i % 4] = 0;
#define QUERIES(d, a) a[0] = queries[d][0], a[1] = queries[d][1], a[2] = queries[d][2], a[3] = queries[d][3]
    MULTIPLY_ROWS(QUERIES, of_keys, BLOCKS_OF_KEYS, scores)
    weigh(scores, &r, scalars, bias, of_bias, s, of_scores, head, query, key + lane % 4 * 2);
    UNROLL
    for (int i = 0; i < 4 * BLOCKS_OF_HEAD; ++i) sums[i / 4][i % 4] *= r.factor[i % 4 / 2];
    UNROLL
    for (int n = 0; n < BLOCKS_OF_KEYS; n += 2) {
      const u32 weights[4] = {pair_of(scores[n][0], scores[n][1]), pair_of(scores[n][2], scores[n][3]),
                              pair_of(scores[n + 1][0], scores[n + 1][1]), pair_of(scores[n + 1][2], scores[n + 1][3])};
      add_product_of_16(weights, of_values + n * 8 * LINE, sums);
    }
  }

  const float factor = scalars->value[DESCALE_S] * scalars->value[DESCALE_V] * scalars->value[SCALE_S];
  float largest_s = 0, factors[2];
  UNROLL
  for (int half = 0; half < 2; ++half) {
    const int at = query + 8 * half;
    const float inverse = 1 / r.sum[half];
    factors[half] = factor * inverse;
    if (at >= s.queries) continue;
    largest_s = MAX(inverse, largest_s);
    if (s.has_statistics && lane % 4 == 0) {
      m[(i64)head * s.queries + at] = r.largest[half];
      z_inv[(i64)head * s.queries + at] = inverse;
    }
  }
  const float largest_o = store_pairs(sums, o, of_o, query, s.queries, s.head_size, factors, scalars->value[SCALE_O]);
  store_largest((LOCAL float*)memory, largest_s, largest_o, magnitudes);
}
