// Attention on GPUs in fp32: a block of 256 threads has ROWS queries or keys, and takes ROWS of the others at a time.
// Thread t has rows 4 * (t / 16) to 4 * (t / 16) + 3 of a tile and every 16th column from t % 16 on. Options: IN = OUT
// (type of q), HEAD (columns of results of a block, a multiple of 16: the whole head, or a part of a large one, with
// BLOCK(1) its number), DOUT (type of dout).
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/functions.h"
#include "kernels/gpu/portable/attention_kept.h"

#define ROWS 64
#define THREADS 256
#define DEPTH 16
#define PITCH (DEPTH + 1)
#define TILE_PITCH (ROWS + 1)
#define COLUMNS (HEAD / 16)
#define ROUNDS (SIZE_OF(IN_TYPE) == 1)
#define POOL MAX(2 * ROWS * PITCH, DEPTH * HEAD)  // floats of the operands at hand

typedef struct {
  i64 step[5][3];  // of batches, heads and tokens, for each tensor
} Strides;

typedef struct {
  int heads, queries, keys, head_size, causal, has_bias, has_statistics;
  int is_aligned;  // all tokens start at multiples of 16 bytes
  float scale;
} Shape;

/// Where a head of a tensor starts, and the step between its tokens.
typedef struct {
  i64 first, step;
} Place;

INLINE Place place_of(const i64* step, int head, int heads) {
  Place p;
  p.first = (i64)(head / heads) * step[0] + (i64)(head % heads) * step[1];
  p.step = step[2];
  return p;
}

INLINE Place columns_from(Place p, int column) {
  p.first += column;
  return p;
}

/// Elements [depth, depth + DEPTH) of ROWS tokens from `token` on, zeros behind the last.
INLINE void load_rows(LOCAL float* to, GLOBAL const u8* from, const int type, Place at, int token, int tokens,
                      int depth, int head_size) {
  for (int i = THREAD(0); i < ROWS * DEPTH; i += THREADS) {
    const int row = i / DEPTH, e = depth + i % DEPTH;
    const int inside = token + row < tokens && e < head_size;
    to[row * PITCH + i % DEPTH] =
        inside ? decode(type, load_bits(from, SIZE_OF(type), at.first + (i64)(token + row) * at.step + e)) : 0;
  }
}

/// A tensor of this type, a head of it, and its first token at hand.
typedef struct {
  GLOBAL const u8* data;
  Place at;
  int token, tokens;
} Tokens;

INLINE Tokens tokens_of(GLOBAL const u8* data, Place at, int token, int tokens) {
  Tokens t;
  t.data = data;
  t.at = at;
  t.token = token;
  t.tokens = tokens;
  return t;
}

/// acc (4 x 4) = this thread's part of a b'.
INLINE void multiply_tokens(float* acc, LOCAL float* pool, Tokens a, const int a_type, Tokens b, const int b_type,
                            int head_size) {
  const int ty = THREAD(0) / 16, tx = THREAD(0) % 16;
  LOCAL float* const of_a = pool;
  LOCAL float* const of_b = pool + ROWS * PITCH;
  UNROLL
  for (int i = 0; i < 16; ++i) acc[i] = 0;
  NO_UNROLL
  for (int depth = 0; depth < head_size; depth += DEPTH) {
    BARRIER();
    load_rows(of_a, a.data, a_type, a.at, a.token, a.tokens, depth, head_size);
    load_rows(of_b, b.data, b_type, b.at, b.token, b.tokens, depth, head_size);
    BARRIER();
    UNROLL
    for (int e = 0; e < DEPTH; ++e) {
      float left[4], right[4];
      UNROLL
      for (int i = 0; i < 4; ++i) {
        left[i] = of_a[(ty * 4 + i) * PITCH + e];
        right[i] = of_b[(tx + 16 * i) * PITCH + e];
      }
      UNROLL
      for (int i = 0; i < 16; ++i) acc[i] = FMA(left[i / 4], right[i % 4], acc[i]);
    }
  }
}

/// sums (4 x COLUMNS) += this thread's part of tile b.
INLINE void add_product(float* sums, LOCAL const float* tile, LOCAL float* pool, Tokens b, const int type,
                        int columns) {
  const int ty = THREAD(0) / 16, tx = THREAD(0) % 16;
  NO_UNROLL
  for (int first = 0; first < ROWS; first += DEPTH) {
    BARRIER();
    for (int i = THREAD(0); i < DEPTH * HEAD; i += THREADS) {
      const int row = b.token + first + i / HEAD, e = i % HEAD;
      pool[i] = row < b.tokens && e < columns
                    ? decode(type, load_bits(b.data, SIZE_OF(type), b.at.first + (i64)row * b.at.step + e))
                    : 0;
    }
    BARRIER();
    NO_UNROLL
    for (int k = 0; k < DEPTH; ++k) {
      float left[4];
      UNROLL
      for (int i = 0; i < 4; ++i) left[i] = tile[(ty * 4 + i) * TILE_PITCH + first + k];
      UNROLL
      for (int c = 0; c < COLUMNS; ++c) {
        const float right = pool[k * HEAD + tx + 16 * c];
        UNROLL
        for (int i = 0; i < 4; ++i) sums[i * COLUMNS + c] = FMA(left[i], right, sums[i * COLUMNS + c]);
      }
    }
  }
}

/// The largest of a value of each thread, in thread 0.
INLINE float largest_of_block(LOCAL float* pool, float v) {
  BARRIER();
  pool[THREAD(0)] = v;
  for (int step = THREADS / 2; step > 0; step /= 2) {
    BARRIER();
    if (THREAD(0) < step) {
      v = MAX(pool[THREAD(0) + step], v);
      pool[THREAD(0)] = v;
    }
  }
  return v;
}

/// The magnitudes of a block: by thread 0.
INLINE void store_magnitudes(GLOBAL float* magnitudes, float first, float second) {
  const int block = BLOCK(1) * BLOCKS(0) + BLOCK(0);
  if (THREAD(0) != 0) return;
  magnitudes[block] = first;
  magnitudes[BLOCKS(0) * BLOCKS(1) + block] = second;
}

/// Stores sums times `factor` and `scale`, and returns the largest magnitude before `scale`.
INLINE float store_rows(const float* sums, GLOBAL u8* to, Place at, int token, int tokens, int columns, float factor,
                        float scale) {
  const int ty = THREAD(0) / 16, tx = THREAD(0) % 16;
  float largest = 0;
  UNROLL
  for (int i = 0; i < 4; ++i) {
    const int row = token + ty * 4 + i;
    UNROLL
    for (int c = 0; c < COLUMNS; ++c) {
      const int e = tx + 16 * c;
      if (row >= tokens || e >= columns) continue;
      const float v = sums[i * COLUMNS + c] * factor;
      largest = MAX(v < 0 ? -v : v, largest);
      store_bits(to, SIZE_OF(OUT_TYPE), at.first + (i64)row * at.step + e, encode(OUT_TYPE, v * scale));
    }
  }
  return largest;
}

/// A score of a thread from the product of q and k; minus infinity where the query does not see the key.
INLINE float score_of(float product, float factor, GLOBAL const float* bias, Place of_bias, Shape s, int query,
                      int key) {
  const float hidden = FLOAT_OF_BITS(0xff800000u);
  if (query >= s.queries || key >= s.keys || (s.causal && key > query)) return hidden;
  const float v = product * factor;
  return s.has_bias ? v + bias[of_bias.first + (i64)query * of_bias.step + key] : v;
}
INLINE u64 score_number(Shape s, int head, int query, int key) {
  return (u64)(((i64)head * s.queries + query) * s.keys + key);
}
INLINE float rounded_weight(float v) { return ROUNDS ? decode(IN_TYPE, encode(IN_TYPE, v)) : v; }
