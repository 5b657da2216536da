// Gradients of attention, in two passes that compute the weights again: dq of ROWS queries of a head per block, which
// also leaves the sums of o dout, then dk and dv of ROWS keys per block.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/attention_gradient.h"

KERNEL THREADS_PER_BLOCK(THREADS)
    gradient_q(GLOBAL const u8* q, GLOBAL const u8* k, GLOBAL const u8* v, GLOBAL const u8* o, GLOBAL const float* bias,
               GLOBAL const float* m, GLOBAL const float* z_inv, GLOBAL const u8* dout, GLOBAL u8* dq,
               GLOBAL const Scalars* scalars, GLOBAL float* deltas, GLOBAL float* magnitudes, const Strides strides,
               const Strides more, const Shape s) {
  SHARED float tile[ROWS * TILE_PITCH], pool[POOL], delta[ROWS];
  const int blocks = CEIL_DIV(s.queries, ROWS), head = BLOCK(0) / blocks;
  const int query = (blocks - 1 - BLOCK(0) % blocks) * ROWS;
  const Place of_k = place_of(strides.step[1], head, s.heads), of_v = place_of(strides.step[2], head, s.heads);
  const Place of_o = place_of(strides.step[3], head, s.heads), of_bias = place_of(strides.step[4], head, s.heads);
  const int column = BLOCK(1) * HEAD, columns = MIN(HEAD, s.head_size - column);
  const Place of_dout = place_of(more.step[0], head, s.heads);
  const Place of_dq = columns_from(place_of(more.step[1], head, s.heads), column);
  const Tokens queries = tokens_of(q, place_of(strides.step[0], head, s.heads), query, s.queries);
  const Tokens douts = tokens_of(dout, of_dout, query, s.queries);
  const int ty = THREAD(0) / 16, tx = THREAD(0) % 16;
  const i64 first = (i64)head * s.queries;
  if (THREAD(0) < ROWS) {
    float sum = 0;
    const int row = query + THREAD(0);
    for (int e = 0; row < s.queries && e < s.head_size; ++e)
      sum += decode(IN_TYPE, load_bits(o, SIZE_OF(IN_TYPE), of_o.first + (i64)row * of_o.step + e)) *
             decode(DOUT_TYPE, load_bits(dout, SIZE_OF(DOUT_TYPE), of_dout.first + (i64)row * of_dout.step + e));
    sum *= scalars->value[DESCALE_DO] * scalars->value[DESCALE_O];
    delta[THREAD(0)] = sum;
    if (row < s.queries && column == 0) deltas[first + row] = sum;
  }
  const int end = s.causal ? MIN(s.keys, query + ROWS) : s.keys;
  float sums[4 * COLUMNS], scores[16], dp[16], largest = 0;
  UNROLL
  for (int i = 0; i < 4 * COLUMNS; ++i) sums[i] = 0;
  NO_UNROLL
  for (int key = 0; key < end; key += ROWS) {
    multiply_tokens(scores, pool, queries, IN_TYPE, tokens_of(k, of_k, key, s.keys), IN_TYPE, s.head_size);
    multiply_tokens(dp, pool, douts, DOUT_TYPE, tokens_of(v, of_v, key, s.keys), IN_TYPE, s.head_size);
    UNROLL
    for (int i = 0; i < 16; ++i) {
      const int row = ty * 4 + i / 4, column = tx + 16 * (i % 4), at = MIN(query + row, s.queries - 1);
      const Weighed w = weigh(scores[i], dp[i], scalars, bias, of_bias, s, head, query + row, key + column,
                              m[first + at], z_inv[first + at], delta[row]);
      largest = MAX(w.gradient < 0 ? -w.gradient : w.gradient, largest);
      tile[row * TILE_PITCH + column] = rounded_weight(w.gradient * scalars->value[SCALE_DS]);
    }
    add_product(sums, tile, pool, tokens_of(k, columns_from(of_k, column), key, s.keys), IN_TYPE, columns);
  }
  const float factor = scalars->value[DESCALE_DS] * scalars->value[DESCALE_K];
  const float mine = store_rows(sums, dq, of_dq, query, s.queries, columns, factor, scalars->value[SCALE_DQ]);
  const float largest_dq = largest_of_block(pool, mine);
  const float largest_ds = largest_of_block(pool, largest);
  store_magnitudes(magnitudes, largest_dq, largest_ds);
}

KERNEL THREADS_PER_BLOCK(THREADS)
    gradient_kv(GLOBAL const u8* q, GLOBAL const u8* k, GLOBAL const u8* v, GLOBAL const float* bias,
                GLOBAL const float* m, GLOBAL const float* z_inv, GLOBAL const u8* dout, GLOBAL u8* dk, GLOBAL u8* dv,
                GLOBAL const Scalars* scalars, GLOBAL const float* deltas, GLOBAL float* magnitudes,
                const Strides strides, const Strides more, const Shape s) {
  SHARED float tile[ROWS * TILE_PITCH], pool[POOL];
  const int blocks = CEIL_DIV(s.keys, ROWS), head = BLOCK(0) / blocks, key = BLOCK(0) % blocks * ROWS;
  const Place of_q = place_of(strides.step[0], head, s.heads), of_bias = place_of(strides.step[4], head, s.heads);
  const Place of_dout = place_of(more.step[0], head, s.heads);
  const int column = BLOCK(1) * HEAD, columns = MIN(HEAD, s.head_size - column);
  const Place of_dk = columns_from(place_of(more.step[2], head, s.heads), column);
  const Place of_dv = columns_from(place_of(more.step[3], head, s.heads), column);
  const Tokens keys = tokens_of(k, place_of(strides.step[1], head, s.heads), key, s.keys);
  const Tokens values = tokens_of(v, place_of(strides.step[2], head, s.heads), key, s.keys);
  const int ty = THREAD(0) / 16, tx = THREAD(0) % 16;
  const i64 first = (i64)head * s.queries;
  float of_keys[4 * COLUMNS], of_values[4 * COLUMNS], scores[16], dp[16];
  UNROLL
  for (int i = 0; i < 4 * COLUMNS; ++i) of_keys[i] = of_values[i] = 0;
  NO_UNROLL
  for (int query = s.causal ? key : 0; query < s.queries; query += ROWS) {
    const Tokens queries = tokens_of(q, of_q, query, s.queries), douts = tokens_of(dout, of_dout, query, s.queries);
    multiply_tokens(scores, pool, keys, IN_TYPE, queries, IN_TYPE, s.head_size);
    multiply_tokens(dp, pool, values, IN_TYPE, douts, DOUT_TYPE, s.head_size);
    UNROLL
    for (int i = 0; i < 16; ++i) {
      const int row = ty * 4 + i / 4, column = tx + 16 * (i % 4), at = MIN(query + column, s.queries - 1);
      const Weighed w = weigh(scores[i], dp[i], scalars, bias, of_bias, s, head, query + column, key + row,
                              m[first + at], z_inv[first + at], deltas[first + at]);
      tile[row * TILE_PITCH + column] = rounded_weight(w.weight * scalars->value[SCALE_S]);
      scores[i] = rounded_weight(w.gradient * scalars->value[SCALE_DS]);
    }
    add_product(of_values, tile, pool, tokens_of(dout, columns_from(of_dout, column), query, s.queries), DOUT_TYPE,
                columns);
    BARRIER();
    UNROLL
    for (int i = 0; i < 16; ++i) tile[(ty * 4 + i / 4) * TILE_PITCH + tx + 16 * (i % 4)] = scores[i];
    add_product(of_keys, tile, pool, tokens_of(q, columns_from(of_q, column), query, s.queries), IN_TYPE, columns);
  }
  const float k_factor = scalars->value[DESCALE_DS] * scalars->value[DESCALE_Q];
  const float v_factor = scalars->value[DESCALE_S] * scalars->value[DESCALE_DO];
  const float mine_dk = store_rows(of_keys, dk, of_dk, key, s.keys, columns, k_factor, scalars->value[SCALE_DK]);
  const float mine_dv = store_rows(of_values, dv, of_dv, key, s.keys, columns, v_factor, scalars->value[SCALE_DV]);
  const float largest_dk = largest_of_block(pool, mine_dk);
  const float largest_dv = largest_of_block(pool, mine_dv);
  store_magnitudes(magnitudes, largest_dk, largest_dv);
}
