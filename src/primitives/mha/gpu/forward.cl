// Attention of ROWS queries of a head per block. Where weights are 8-bit floats, they are rounded relative to the final
// sum: the scores are computed twice.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/attention.h"

/// The running maximum, sum and last factor of each row.
typedef struct {
  LOCAL float *tile, *pool, *largest, *sum, *factor, *parts;
} Rows;

/// Replaces the scores of the tile by weights of the running maximum. Four threads share a row.
INLINE void weigh(Rows r, GLOBAL const Scalars* scalars, Shape s, int head, int query, int key) {
  const int row = THREAD(0) / 4, part = THREAD(0) % 4;
  LOCAL float* const scores = r.tile + row * TILE_PITCH + part * 16;
  const float none = FLOAT_OF_BITS(0xff800000u);
  BARRIER();
  float most = none;
  for (int c = 0; c < 16; ++c) most = MAX(scores[c], most);
  r.parts[THREAD(0)] = most;
  BARRIER();
  const float before = r.largest[row];
  most = before;
  for (int i = 0; i < 4; ++i) most = MAX(r.parts[row * 4 + i], most);
  const float shift = most == none ? 0 : most;
  float total = 0;
  for (int c = 0; c < 16; ++c) {
    const float weight = scores[c] == none ? 0 : exp_of(scores[c] - shift);
    total += weight;
    const int drops = scalars->drops && weight != 0;
    scores[c] = drops ? weight * kept_factor(scalars, score_number(s, head, query + row, key + part * 16 + c)) : weight;
  }
  BARRIER();
  r.parts[THREAD(0)] = total;
  BARRIER();
  if (part != 0) return;
  const float factor = before == none ? 1 : exp_of(before - shift);
  r.factor[row] = factor;
  r.sum[row] =
      r.sum[row] * factor + ((r.parts[row * 4] + r.parts[row * 4 + 1]) + (r.parts[row * 4 + 2] + r.parts[row * 4 + 3]));
  r.largest[row] = most;
}

KERNEL THREADS_PER_BLOCK(THREADS)
    forward(GLOBAL const u8* q, GLOBAL const u8* k, GLOBAL const u8* v, GLOBAL u8* o, GLOBAL const float* bias,
            GLOBAL float* m, GLOBAL float* z_inv, GLOBAL const Scalars* scalars, GLOBAL float* magnitudes,
            const Strides strides, const Shape s) {
  SHARED float tile[ROWS * TILE_PITCH], pool[POOL], largest[ROWS], sum[ROWS], factor[ROWS], parts[THREADS];
  const Rows r = {tile, pool, largest, sum, factor, parts};
  const int blocks = CEIL_DIV(s.queries, ROWS), head = BLOCK(0) / blocks;
  const int query = (blocks - 1 - BLOCK(0) % blocks) * ROWS;  // blocks with more visible keys first
  const int column = BLOCK(1) * HEAD, columns = MIN(HEAD, s.head_size - column);
  const Place of_k = place_of(strides.step[1], head, s.heads), of_bias = place_of(strides.step[4], head, s.heads);
  const Place of_v = columns_from(place_of(strides.step[2], head, s.heads), column);
  const Place of_o = columns_from(place_of(strides.step[3], head, s.heads), column);
  const Tokens queries = tokens_of(q, place_of(strides.step[0], head, s.heads), query, s.queries);
  const int ty = THREAD(0) / 16, tx = THREAD(0) % 16;
  const float of_scores = s.scale * scalars->value[DESCALE_Q] * scalars->value[DESCALE_K];
  const int end = s.causal ? MIN(s.keys, query + ROWS) : s.keys;
  float sums[4 * COLUMNS], scores[16];
  UNROLL
  for (int i = 0; i < 4 * COLUMNS; ++i) sums[i] = 0;
  if (THREAD(0) < ROWS) {
    largest[THREAD(0)] = FLOAT_OF_BITS(0xff800000u);
    sum[THREAD(0)] = 0;
  }
  NO_UNROLL
  for (int pass = ROUNDS ? 0 : 1; pass < 2; ++pass) {
    NO_UNROLL
    for (int key = 0; key < end; key += ROWS) {
      multiply_tokens(scores, pool, queries, IN_TYPE, tokens_of(k, of_k, key, s.keys), IN_TYPE, s.head_size);
      BARRIER();
      UNROLL
      for (int i = 0; i < 16; ++i) {
        const int row = ty * 4 + i / 4, column = tx + 16 * (i % 4);
        float score = score_of(scores[i], of_scores, bias, of_bias, s, query + row, key + column);
        if (ROUNDS && pass == 1) {
          float weight = score == FLOAT_OF_BITS(0xff800000u) ? 0 : exp_of(score - largest[row]) * sum[row];
          if (scalars->drops && weight != 0)
            weight *= kept_factor(scalars, score_number(s, head, query + row, key + column));
          score = rounded_weight(weight * scalars->value[SCALE_S]);
        }
        tile[row * TILE_PITCH + column] = score;
      }
      if (!ROUNDS || pass == 0) weigh(r, scalars, s, head, query, key);
      BARRIER();  // before the branch: PoCL else adds to a row's sum in each of its threads
      if (pass == 0) continue;
      if (!ROUNDS) {
        UNROLL
        for (int i = 0; i < 4 * COLUMNS; ++i) sums[i] *= factor[ty * 4 + i / COLUMNS];
      }
      add_product(sums, tile, pool, tokens_of(v, of_v, key, s.keys), IN_TYPE, columns);
    }
    BARRIER();
    // The inverse sums replace the sums.
    if ((!ROUNDS || pass == 0) && THREAD(0) < ROWS) {
      sum[THREAD(0)] = 1 / sum[THREAD(0)];
      if (s.has_statistics && column == 0 && query + THREAD(0) < s.queries) {
        m[(i64)head * s.queries + query + THREAD(0)] = largest[THREAD(0)];
        z_inv[(i64)head * s.queries + query + THREAD(0)] = sum[THREAD(0)];
      }
    }
    BARRIER();
  }
  if (!ROUNDS) {
    UNROLL
    for (int i = 0; i < 4 * COLUMNS; ++i) sums[i] *= sum[ty * 4 + i / COLUMNS] * scalars->value[SCALE_S];
  }
  const float of_values = scalars->value[DESCALE_S] * scalars->value[DESCALE_V];
  const float mine = store_rows(sums, o, of_o, query, s.queries, columns, of_values, scalars->value[SCALE_O]);
  const float largest_o = largest_of_block(pool, mine);
  const int has_row = THREAD(0) < ROWS && query + THREAD(0) < s.queries;
  const float mine_s = has_row ? sum[THREAD(0) % ROWS] : 0;
  const float largest_s = largest_of_block(pool, mine_s);
  store_magnitudes(magnitudes, largest_s, largest_o);
}
