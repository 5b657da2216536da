// The product of a step of rnn/gpu/persistent.cl, whose options and exchange it uses: weights in local memory times the
// state, by matrix units or without them; sums of parts of the depth.
// SPDX-License-Identifier: MIT
#pragma once

#if MATRIX

#define KIND_fp32 1
#define KIND_fp16 2
#define KIND_bf16 3
#define IN_KIND PASTE(KIND_, IN)
typedef stored in_t;
#include "kernels/gpu/portable/matrix_units.h"

#define PARTS WARPS
#define CHUNK (4 * PER_LOAD)
#define CHUNKS CEIL_DIV(DEPTH, CHUNK* WARPS)                                                   // of a warp
#define BATCH MIN(CHUNKS, (SAMPLES < 32 ? 256 : OUT_TYPE == TYPE_fp32 ? 128 : 192) / SAMPLES)  // of them in registers
#define TILES (SAMPLES / 8)
#define PITCH(depth) ((depth) + (OUT_TYPE == TYPE_fp32 ? 16 : 8))  // eight rows, of fp32 two, are in different banks
#define WEIGHT_ELEMENTS(depth) (ROWS * PITCH(depth))

/// [row][depth]. A lane has eight neighbours of a chunk of the state, of which an instruction takes four, two by two:
/// weights of 16 bits are in the order that the instruction has them.
INLINE void load_weights(LOCAL stored* to, GLOBAL const stored* w, Step s, int group, int depth) {
  NO_UNROLL
  for (int k = THREAD(0); k < depth; k += THREADS) {
    const int at =
        OUT_TYPE == TYPE_fp32 ? k : k / CHUNK * CHUNK + k / 4 % 2 * 16 + k / 2 % 2 * 8 + k / 8 % 4 * 2 + k % 2;
    NO_UNROLL
    for (int first = 0; first < ROWS; first += 16) {
      UNROLL
      for (int row = first; row < first + 16; ++row) to[row * PITCH(depth) + at] = weight_of(w, s, group, row, k);
    }
  }
}

#if OUT_TYPE == TYPE_fp32

/// The sum of both is the number; TF32 holds `high`, and `low` but for two bits.
INLINE void split(u32 bits, u32* high, u32* low) {
  *high = bits & 0xffffe000u;
  *low = BITS_OF_FLOAT(FLOAT_OF_BITS(bits) - FLOAT_OF_BITS(*high));
}
INLINE void split_4(u32x4 v, u32* high, u32* low) {
  split(v.x, high + 0, low + 0);
  split(v.y, high + 1, low + 1);
  split(v.z, high + 2, low + 2);
  split(v.w, high + 3, low + 3);
}

/// c += the weights from depth k on times a chunk. Three products of the parts have the error of one of fp32.
INLINE void multiply_chunk(LOCAL const stored* weights, int k, const u32x4* chunk, float c[ROWS / 16][TILES][4]) {
  const int lane = THREAD(0) % LANES;
  u32 high[TILES][4], low[TILES][4];
  UNROLL
  for (int t = 0; t < TILES; ++t) split_4(chunk[t], high[t], low[t]);
  UNROLL
  for (int m = 0; m < ROWS / 16; ++m) {
    u32 w_high[2][4], w_low[2][4];
    UNROLL
    for (int i = 0; i < 2; ++i) {
      const int row = m * 16 + i * 8 + lane / 4;
      split_4(*(LOCAL const u32x4*)(weights + row * PITCH(DEPTH) + k + lane % 4 * 4), w_high[i], w_low[i]);
    }
    UNROLL
    for (int j = 0; j < 4; j += 2) {
      const u32 a_high[4] = {w_high[0][j], w_high[1][j], w_high[0][j + 1], w_high[1][j + 1]};
      const u32 a_low[4] = {w_low[0][j], w_low[1][j], w_low[0][j + 1], w_low[1][j + 1]};
      UNROLL
      for (int t = 0; t < TILES; ++t) mma_tf32(a_low, high[t] + j, c[m][t]);
      UNROLL
      for (int t = 0; t < TILES; ++t) mma_tf32(a_high, low[t] + j, c[m][t]);
      UNROLL
      for (int t = 0; t < TILES; ++t) mma_tf32(a_high, high[t] + j, c[m][t]);
    }
  }
}

#else

/// c += the weights from depth k on times a chunk.
INLINE void multiply_chunk(LOCAL const stored* weights, int k, const u32x4* chunk, float c[ROWS / 16][TILES][4]) {
  const int lane = THREAD(0) % LANES;
  UNROLL
  for (int half = 0; half < 2; ++half) {
    UNROLL
    for (int m = 0; m < ROWS / 16; ++m) {
      u32 a[4];
      load_4_blocks(local_address(weights + (m * 16 + lane % 16) * PITCH(DEPTH) + k + half * 16 + lane / 16 * 8), a);
      UNROLL
      for (int t = 0; t < TILES; ++t) {
        const u32 pairs[2] = {half ? chunk[t].z : chunk[t].x, half ? chunk[t].w : chunk[t].y};
        mma_16x8x16(a, pairs, c[m][t]);
      }
    }
  }
}

#endif

/// sums [PARTS][ROWS][SAMPLES + 1] = the weights times the state of samples from `first` on. Matrix units truncate sums
/// of fp32, so these are short.
INLINE void multiply(LOCAL const stored* weights, Exchange e, int first, LOCAL float* sums) {
  const int warp = THREAD(0) / LANES, lane = THREAD(0) % LANES, k_of_lane = warp * CHUNK + lane % 4 * PER_LOAD;
  GLOBAL const stored* const from = e.data + (i64)(first + lane / 4) * DEPTH + k_of_lane;
  float c[ROWS / 16][TILES][4], total[ROWS / 16][TILES][4];
  UNROLL
  for (int i = 0; i < ROWS / 16 * TILES * 4; ++i)
    c[i / 4 / TILES][i / 4 % TILES][i % 4] = total[i / 4 / TILES][i / 4 % TILES][i % 4] = 0;
#define LOAD_PART(n)                                                                           \
  if (first + lane / 4 + (n) % TILES * 8 < e.end &&                                            \
      (begin + (n) / TILES + 1 < CHUNKS || k_of_lane + (CHUNKS - 1) * WARPS * CHUNK < e.used)) \
  fetched[n] = load_shared(from + (begin + (n) / TILES) * WARPS * CHUNK + (n) % TILES * 8 * DEPTH)
  UNROLL
  for (int begin = 0; begin < CHUNKS; begin += BATCH) {
    u32x4 fetched[BATCH * TILES];
    UNROLL
    for (int n = 0; n < BATCH * TILES; ++n) {
      const u32x4 none = {0, 0, 0, 0};
      fetched[n] = none;
      if (begin + n / TILES < CHUNKS) LOAD_PART(n);
    }
    while (e.waits) {
      u32 most = 0;
      UNROLL
      for (int n = 0; n < BATCH * TILES; ++n) most = larger(most, largest(fetched[n]));
      if (!__any_sync(~0u, has_ones(most))) break;
      UNROLL
      for (int n = 0; n < BATCH * TILES; ++n)
        if (lacks(fetched[n])) LOAD_PART(n);
    }
    UNROLL
    for (int i = 0; i < MIN(BATCH, CHUNKS - begin); ++i) {
      const int k = ((begin + i) * WARPS + warp) * CHUNK, is_last = i + 1 == MIN(BATCH, CHUNKS - begin);
      if (begin + i + 1 < CHUNKS || k < DEPTH) multiply_chunk(weights, k, fetched + i * TILES, c);
      UNROLL
      for (int j = 0; OUT_TYPE == TYPE_fp32 && (i % 4 == 3 || is_last) && j < ROWS / 16 * TILES * 4; ++j) {
        total[j / 4 / TILES][j / 4 % TILES][j % 4] += c[j / 4 / TILES][j / 4 % TILES][j % 4];
        c[j / 4 / TILES][j / 4 % TILES][j % 4] = 0;
      }
    }
  }
  UNROLL
  for (int i = 0; i < ROWS / 16 * TILES * 4; ++i) {
    const int m = i / 4 / TILES, t = i / 4 % TILES, j = i % 4;
    sums[(warp * ROWS + m * 16 + lane / 4 + j / 2 * 8) * (SAMPLES + 1) + t * 8 + lane % 4 * 2 + j % 2] =
        c[m][t][j] + total[m][t][j];
  }
}

#else

#if defined(__CUDACC__)
#define WARP_BARRIER() __syncwarp()
#else
#define WARP_BARRIER() BARRIER()
#endif
#define SPLIT (LANES / ROWS)  // lanes with the same row have different depths
#define PARTS (WARPS * SPLIT)
#define CHUNK (512 / SAMPLES < 64 ? 512 / SAMPLES : 64)
#define OF_LANE (CHUNK * SAMPLES / LANES)  // elements of a chunk of the state, 8 or 16 neighbours of a sample
#define WEIGHT_ELEMENTS(depth) (ROWS * (depth))

/// [depth][row].
INLINE void load_weights(LOCAL stored* to, GLOBAL const stored* w, Step s, int group, int depth) {
  NO_UNROLL
  for (int k = THREAD(0); k < depth; k += THREADS) {
    UNROLL
    for (int row = 0; row < ROWS; ++row) to[k * ROWS + row] = weight_of(w, s, group, row, k);
  }
}

/// sums [PARTS][ROWS][SAMPLES + 1] = the weights times the state of samples from `first` on. A warp keeps a chunk of
/// the state, [depth][sample], in memory that the sums overwrite, and has the next one in registers.
INLINE void multiply(LOCAL const stored* weights, Exchange e, int first, LOCAL float* sums) {
  const int warp = THREAD(0) / LANES, lane = THREAD(0) % LANES;
  const int sample = lane % SAMPLES, k_of_lane = lane / SAMPLES * OF_LANE;
  LOCAL float* const chunk = sums + warp * CHUNK * SAMPLES;
  u32x4 next[OF_LANE / PER_LOAD];
  float c[SAMPLES];
  UNROLL
  for (int n = 0; n < SAMPLES; ++n) c[n] = 0;
  const u32x4 none = {0, 0, 0, 0};
  GLOBAL const stored* const from = e.data + (i64)(first + sample) * e.depth;
#define LOAD_VECTOR(k, i) \
  next[i] = first + sample < e.end && (k) + (i)*PER_LOAD < e.used ? load_shared(from + (k) + (i)*PER_LOAD) : none
#define LOAD_CHUNK(k) \
  UNROLL              \
  for (int i = 0; i < OF_LANE / PER_LOAD; ++i) LOAD_VECTOR((k) + k_of_lane, i);
  LOAD_CHUNK(warp * CHUNK)
  // All warps take part in the barriers of the last chunks.
  NO_UNROLL
  for (int begin = 0; begin < e.depth; begin += WARPS * CHUNK) {
    const int k = begin + warp * CHUNK;
    UNROLL
    for (int i = 0; i < OF_LANE / PER_LOAD; ++i)
      while (e.waits && lacks(next[i])) LOAD_VECTOR(k + k_of_lane, i);
    UNROLL
    for (int i = 0; i < OF_LANE; ++i) {
      const u32x4 v = next[i / PER_LOAD];
      const u32 quarters[4] = {v.x, v.y, v.z, v.w};
      const int j = i % PER_LOAD;
      const u32 bits = PER_LOAD == 4 ? quarters[j % 4] : quarters[j / 2 % 4] >> j % 2 * 16;
      chunk[(k_of_lane + i) * SAMPLES + sample] = float_of(OUT_TYPE, PER_LOAD == 4 ? bits : bits & 0xffffu);
    }
    WARP_BARRIER();
    LOAD_CHUNK(k + WARPS * CHUNK)
    if (k < e.depth) {
      for (int d = lane / ROWS; d < CHUNK; d += SPLIT) {
        const float weight = number_of(weights[(k + d) * ROWS + lane % ROWS]);
        UNROLL
        for (int n = 0; n < SAMPLES; ++n) c[n] = FMA(weight, chunk[d * SAMPLES + n], c[n]);
      }
    }
    WARP_BARRIER();
  }
  BARRIER();
  const int part = warp * SPLIT + lane / ROWS;
  UNROLL
  for (int n = 0; n < SAMPLES; ++n) sums[(part * ROWS + lane % ROWS) * (SAMPLES + 1) + n] = c[n];
}

#endif

INLINE float sum_of(LOCAL const float* sums, int row, int sample) {
  float sum = 0;
  UNROLL
  for (int p = 0; p < PARTS; ++p) sum += sums[(p * ROWS + row) * (SAMPLES + 1) + sample];
  return sum;
}
