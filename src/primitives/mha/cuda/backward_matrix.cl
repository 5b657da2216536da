// Gradients of attention by matrix units, as in backward.cl: dq of 64 queries of a head per block, then dk and dv of 64
// keys per block.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/attention_matrix.h"
#include "kernels/gpu/portable/attention_gradient.h"

#define KEYS 32     // of a step of the pass over queries
#define QUERIES 16  // of a step of the pass over keys

KERNEL THREADS_PER_BLOCK(MATRIX_THREADS)
    gradient_q(GLOBAL const u8* q, GLOBAL const u8* k, GLOBAL const u8* v, GLOBAL const u8* o, GLOBAL const float* bias,
               GLOBAL const float* m, GLOBAL const float* z_inv, GLOBAL const u8* dout, GLOBAL u8* dq,
               GLOBAL const Scalars* scalars, GLOBAL float* deltas, GLOBAL float* magnitudes, const Strides strides,
               const Strides more, const Shape s) {
  SHARED u32x4 memory[ROWS * LINE / 8];
  SHARED float parts[MATRIX_THREADS];
  LOCAL u16* const of_keys = (LOCAL u16*)memory;
  LOCAL u16* const of_values = of_keys + KEYS * LINE;
  const int blocks = CEIL_DIV(s.queries, ROWS), head = BLOCK(0) / blocks;
  const int first = (blocks - 1 - BLOCK(0) % blocks) * ROWS;
  const int warp = THREAD(0) / 32, lane = THREAD(0) % 32, query = first + warp * 16 + lane / 4;
  const Place of_k = place_of(strides.step[1], head, s.heads), of_v = place_of(strides.step[2], head, s.heads);
  const Place of_o = place_of(strides.step[3], head, s.heads), of_bias = place_of(strides.step[4], head, s.heads);
  const Place of_dout = place_of(more.step[0], head, s.heads), of_dq = place_of(more.step[1], head, s.heads);
  const i64 line = (i64)head * s.queries;

  // Two threads sum o dout of a row.
  float part = 0;
  const int row = THREAD(0) / 2, at_row = first + row;
  for (int e = THREAD(0) % 2; at_row < s.queries && e < s.head_size; e += 2)
    part += decode(IN_TYPE, load_bits(o, 2, of_o.first + (i64)at_row * of_o.step + e)) *
            decode(IN_TYPE, load_bits(dout, 2, of_dout.first + (i64)at_row * of_dout.step + e));
  parts[THREAD(0)] = part;
  BARRIER();
  if (THREAD(0) % 2 == 0) {
    parts[THREAD(0)] = (part + parts[THREAD(0) + 1]) * (scalars->value[DESCALE_DO] * scalars->value[DESCALE_O]);
    if (at_row < s.queries) deltas[line + at_row] = parts[THREAD(0)];
  }

  u32 queries[HEAD / 16][4], douts[HEAD / 16][4];
  load_tile(of_keys, tokens_of(q, place_of(strides.step[0], head, s.heads), first, s.queries), ROWS, s);
  BARRIER();
  UNROLL
  for (int d = 0; d < HEAD / 16; ++d) load_operand(of_keys, warp * 16, d * 16, queries[d]);
  BARRIER();
  load_tile(of_keys, tokens_of(dout, of_dout, first, s.queries), ROWS, s);
  BARRIER();
  UNROLL
  for (int d = 0; d < HEAD / 16; ++d) load_operand(of_keys, warp * 16, d * 16, douts[d]);

  float sums[BLOCKS_OF_HEAD][4], largest = 0, m_of[2], z_of[2], delta_of[2];
  UNROLL
  for (int i = 0; i < 4 * BLOCKS_OF_HEAD; ++i) sums[i / 4][i % 4] = 0;
  UNROLL
  for (int half = 0; half < 2; ++half) {
    const int at = MIN(query + 8 * half, s.queries - 1);
    m_of[half] = m[line + at];
    z_of[half] = z_inv[line + at];
    delta_of[half] = parts[2 * (warp * 16 + lane / 4 + 8 * half)];
  }
  const int end = s.causal ? MIN(s.keys, first + ROWS) : s.keys;
  NO_UNROLL
  for (int key = 0; key < end; key += KEYS) {
    BARRIER();
    load_tile(of_keys, tokens_of(k, of_k, key, s.keys), KEYS, s);
    load_tile(of_values, tokens_of(v, of_v, key, s.keys), KEYS, s);
    BARRIER();
    float scores[KEYS / 8][4], dp[KEYS / 8][4];
    UNROLL
    for (int i = 0; i < KEYS / 2; ++i) scores[i / 4][i % 4] = dp[i / 4][i % 4] = 0;
#define OF_QUERIES(d, a) a[0] = queries[d][0], a[1] = queries[d][1], a[2] = queries[d][2], a[3] = queries[d][3]
    MULTIPLY_ROWS(OF_QUERIES, of_keys, KEYS / 8, scores)
#define OF_DOUTS(d, a) a[0] = douts[d][0], a[1] = douts[d][1], a[2] = douts[d][2], a[3] = douts[d][3]
    MULTIPLY_ROWS(OF_DOUTS, of_values, KEYS / 8, dp)
    UNROLL
    for (int i = 0; i < KEYS / 2; ++i) {
      const int half = i % 4 / 2, column = key + i / 4 * 8 + lane % 4 * 2 + i % 2;
      const Weighed w = weigh(scores[i / 4][i % 4], dp[i / 4][i % 4], scalars, bias, of_bias, s, head, query + 8 * half,
                              column, m_of[half], z_of[half], delta_of[half]);
      largest = MAX(w.gradient < 0 ? -w.gradient : w.gradient, largest);
      scores[i / 4][i % 4] = w.gradient * scalars->value[SCALE_DS];
    }
    UNROLL
    for (int n = 0; n < KEYS / 8; n += 2) {
      const u32 gradients[4] = {pair_of(scores[n][0], scores[n][1]), pair_of(scores[n][2], scores[n][3]),
                                pair_of(scores[n + 1][0], scores[n + 1][1]),
                                pair_of(scores[n + 1][2], scores[n + 1][3])};
      add_product_of_16(gradients, of_keys + n * 8 * LINE, sums);
    }
  }
  const float factor = scalars->value[DESCALE_DS] * scalars->value[DESCALE_K], factors[2] = {factor, factor};
  const float largest_dq =
      store_pairs(sums, dq, of_dq, query, s.queries, s.head_size, factors, scalars->value[SCALE_DQ]);
  store_largest((LOCAL float*)memory, largest_dq, largest, magnitudes);
}

KERNEL THREADS_PER_BLOCK(MATRIX_THREADS)
    gradient_kv(GLOBAL const u8* q, GLOBAL const u8* k, GLOBAL const u8* v, GLOBAL const float* bias,
                GLOBAL const float* m, GLOBAL const float* z_inv, GLOBAL const u8* dout, GLOBAL u8* dk, GLOBAL u8* dv,
                GLOBAL const Scalars* scalars, GLOBAL const float* deltas, GLOBAL float* magnitudes,
                const Strides strides, const Strides more, const Shape s) {
  SHARED u32x4 memory[(2 * ROWS + 2 * QUERIES) * LINE / 8];
  LOCAL u16* const of_keys = (LOCAL u16*)memory;
  LOCAL u16* const of_values = of_keys + ROWS * LINE;
  LOCAL u16* const of_queries = of_values + ROWS * LINE;
  LOCAL u16* const of_douts = of_queries + QUERIES * LINE;
  const int blocks = CEIL_DIV(s.keys, ROWS), head = BLOCK(0) / blocks, first = BLOCK(0) % blocks * ROWS;
  const int warp = THREAD(0) / 32, lane = THREAD(0) % 32, key = first + warp * 16 + lane / 4;
  const Place of_q = place_of(strides.step[0], head, s.heads), of_bias = place_of(strides.step[4], head, s.heads);
  const Place of_dout = place_of(more.step[0], head, s.heads), of_dk = place_of(more.step[2], head, s.heads);
  const Place of_dv = place_of(more.step[3], head, s.heads);
  const i64 line = (i64)head * s.queries;
  load_tile(of_keys, tokens_of(k, place_of(strides.step[1], head, s.heads), first, s.keys), ROWS, s);
  load_tile(of_values, tokens_of(v, place_of(strides.step[2], head, s.heads), first, s.keys), ROWS, s);

  float k_sums[BLOCKS_OF_HEAD][4], v_sums[BLOCKS_OF_HEAD][4];
  UNROLL
  for (int i = 0; i < 4 * BLOCKS_OF_HEAD; ++i) k_sums[i / 4][i % 4] = v_sums[i / 4][i % 4] = 0;
  NO_UNROLL
  for (int query = s.causal ? first : 0; query < s.queries; query += QUERIES) {
    BARRIER();
    load_tile(of_queries, tokens_of(q, of_q, query, s.queries), QUERIES, s);
    load_tile(of_douts, tokens_of(dout, of_dout, query, s.queries), QUERIES, s);
    BARRIER();
    float scores[QUERIES / 8][4], dp[QUERIES / 8][4];
    UNROLL
    for (int i = 0; i < QUERIES / 2; ++i) scores[i / 4][i % 4] = dp[i / 4][i % 4] = 0;
#define OF_KEYS(d, a) load_operand(of_keys, warp * 16, (d)*16, a)
    MULTIPLY_ROWS(OF_KEYS, of_queries, QUERIES / 8, scores)
#define OF_VALUES(d, a) load_operand(of_values, warp * 16, (d)*16, a)
    MULTIPLY_ROWS(OF_VALUES, of_douts, QUERIES / 8, dp)
    UNROLL
    for (int i = 0; i < QUERIES / 2; ++i) {
      const int half = i % 4 / 2, column = query + i / 4 * 8 + lane % 4 * 2 + i % 2, at = MIN(column, s.queries - 1);
      const Weighed w = weigh(scores[i / 4][i % 4], dp[i / 4][i % 4], scalars, bias, of_bias, s, head, column,
                              key + 8 * half, m[line + at], z_inv[line + at], deltas[line + at]);
      scores[i / 4][i % 4] = w.weight * scalars->value[SCALE_S];
      dp[i / 4][i % 4] = w.gradient * scalars->value[SCALE_DS];
    }
    const u32 weights[4] = {pair_of(scores[0][0], scores[0][1]), pair_of(scores[0][2], scores[0][3]),
                            pair_of(scores[1][0], scores[1][1]), pair_of(scores[1][2], scores[1][3])};
    const u32 gradients[4] = {pair_of(dp[0][0], dp[0][1]), pair_of(dp[0][2], dp[0][3]), pair_of(dp[1][0], dp[1][1]),
                              pair_of(dp[1][2], dp[1][3])};
    add_product_of_16(weights, of_douts, v_sums);
    add_product_of_16(gradients, of_queries, k_sums);
  }
  const float k_factor = scalars->value[DESCALE_DS] * scalars->value[DESCALE_Q];
  const float v_factor = scalars->value[DESCALE_S] * scalars->value[DESCALE_DO];
  const float k_factors[2] = {k_factor, k_factor}, v_factors[2] = {v_factor, v_factor};
  const float largest_dk =
      store_pairs(k_sums, dk, of_dk, key, s.keys, s.head_size, k_factors, scalars->value[SCALE_DK]);
  const float largest_dv =
      store_pairs(v_sums, dv, of_dv, key, s.keys, s.head_size, v_factors, scalars->value[SCALE_DV]);
  store_largest((LOCAL float*)memory, largest_dk, largest_dv, magnitudes);
}
