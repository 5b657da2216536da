// NHWC depthwise convolution, forward and backward data. A thread computes VEC neighbouring channels of ROWS rows by
// COLS columns of outputs: every input vector is loaded once and used for all taps that read it.
// Options: IN, OUT, DIRECTION (0, 1), FILTER_H, FILTER_W, STRIDE (1, 2), VEC (1, 4 or VECTOR), ROWS,
// COLS; forward with an epilogue: FUSES.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"
#include "kernels/gpu/portable/depthwise.h"
#include "kernels/gpu/portable/depthwise_epilogue.h"

INLINE void scale_and_store(GLOBAL out_t* dst, sum_t* v, float alpha, float beta FUSED_PARAMETERS) {
  UNROLL
  for (int u = 0; u < VEC; ++u) {
    v[u] *= alpha;
    if (beta != 0) v[u] = FMA(beta, LOAD(OUT, dst, u), v[u]);
    v[u] = FUSED(v[u], u);
  }
  STORE_VEC(dst, v);
}

#define TILE_H ((ROWS - 1) * STRIDE + FILTER_H)
#define TILE_W ((COLS - 1) * STRIDE + FILTER_W)

#if DIRECTION == 1 && STRIDE == 2
#define PHASES 1  // tiles begin at an output that tap 0 maps to a pixel of src: the parity selects the taps
#define FIRST_H (-((FILTER_H - 1) / 2))
#define FIRST_W (-((FILTER_W - 1) / 2))
#define SPAN_H ((ROWS - 1) / 2 - FIRST_H + 1)
#define SPAN_W ((COLS - 1) / 2 - FIRST_W + 1)

INLINE void gather_phases(GLOBAL const in_t* src, LOCAL const sum_t* w, DepthwiseShape d, Tile t,
                          sum_t (*acc)[COLS][VEC]) {
  const int h0 = (t.row + d.pad_h) / 2 + FIRST_H, w0 = (t.col + d.pad_w) / 2 + FIRST_W;
  UNROLL
  for (int i = 0; i < SPAN_H; ++i) {
    const int row_inside = (u32)(h0 + i) < (u32)d.src_h;
    sum_t v[SPAN_W][VEC];
    UNROLL
    for (int j = 0; j < SPAN_W; ++j)
      load_or_zero(src + (i64)((h0 + i) * d.src_w + w0 + j) * d.channels, row_inside && (u32)(w0 + j) < (u32)d.src_w,
                   v[j]);
    UNROLL
    for (int p = 0; p < ROWS; ++p) {
      const int r = p - 2 * (i + FIRST_H);
      if (r < 0 || r >= FILTER_H) continue;
      UNROLL
      for (int s = 0; s < FILTER_W; ++s) {
        sum_t tap[VEC];
        LOAD_TAP(w, r * FILTER_W + s, d.vectors, tap);
        UNROLL
        for (int q = 0; q < COLS; ++q)
          if ((q + s) % 2 == 0) multiply_add(v[(q - s) / 2 - FIRST_W], tap, acc[p][q]);
      }
    }
  }
}
#else
#define PHASES 0
#endif

#if !PHASES
/// Processes the input window of a tile row by row; a row contributes to all output rows that it belongs to.
INLINE void gather_window(GLOBAL const in_t* src, LOCAL const sum_t* w, DepthwiseShape d, Tile t,
                          sum_t (*acc)[COLS][VEC]) {
  const int h0 = t.row * STRIDE - d.pad_h, w0 = t.col * STRIDE - d.pad_w;
  NO_UNROLL
  for (int i = 0; i < TILE_H; ++i) {
    const int row_inside = (u32)(h0 + i) < (u32)d.src_h;
    sum_t v[TILE_W][VEC];
    UNROLL
    for (int j = 0; j < TILE_W; ++j)
      load_or_zero(src + (i64)((h0 + i) * d.src_w + w0 + j) * d.channels, row_inside && (u32)(w0 + j) < (u32)d.src_w,
                   v[j]);
    UNROLL
    for (int p = 0; p < ROWS; ++p) {
      const int r = i - p * STRIDE;
      if (r < 0 || r >= FILTER_H) continue;
      UNROLL
      for (int s = 0; s < FILTER_W; ++s) {
        sum_t tap[VEC];
        LOAD_TAP(w, r * FILTER_W + s, d.vectors, tap);
        UNROLL
        for (int q = 0; q < COLS; ++q) multiply_add(v[q * STRIDE + s], tap, acc[p][q]);
      }
    }
  }
}
#endif

KERNEL THREADS_PER_BLOCK(THREADS) depthwise_channels(GLOBAL const in_t* RESTRICT src, GLOBAL const in_t* RESTRICT w,
                                                     GLOBAL out_t* dst, const DepthwiseShape d, const int tiles,
                                                     const float alpha, const float beta EPILOGUE_PARAMETERS) {
  SHARED sum_t taps[TAPS * MAX_CHANNELS] __attribute__((aligned(16)));
  const int width = d.vectors * VEC, c0 = BLOCK(1) * width, block_channels = MIN(width, d.channels - c0);
  _Pragma("unroll 4") for (int i = THREAD(0); i < block_channels * TAPS; i += THREADS) {
    const int c = i / TAPS, tap = i - c * TAPS, stored_tap = DIRECTION == 1 && STRIDE == 1 ? TAPS - 1 - tap : tap;
    taps[FILTER_AT(stored_tap, c % VEC / 4, c / VEC, d.vectors) + c % MIN(VEC, 4)] = LOAD(IN, w, c0 * TAPS + i);
  }
  BARRIER();
  const int slots = THREADS / d.vectors, slot = THREAD(0) / d.vectors, lane = THREAD(0) - slot * d.vectors;
  const int c = c0 + lane * VEC;
  if (slot >= slots || lane * VEC >= block_channels) return;
  LOAD_TERMS(VEC, c);
  const int before_h = PHASES ? d.pad_h % 2 : 0, before_w = PHASES ? d.pad_w % 2 : 0;
  const int rows = CEIL_DIV(d.dst_h + before_h, ROWS), cols = CEIL_DIV(d.dst_w + before_w, COLS);
  for (int i = BLOCK(0) * slots + slot; i < tiles; i += BLOCKS(0) * slots) {
    Tile t = tile_at(i, rows, cols, ROWS);
    t.row -= before_h;
    t.col -= before_w;
    GLOBAL const in_t* from = src + (i64)t.image * d.src_h * d.src_w * d.channels + c;
    GLOBAL out_t* to = dst + ((i64)t.image * d.dst_h * d.dst_w + (t.row * d.dst_w + t.col)) * d.channels + c;
    sum_t acc[ROWS][COLS][VEC];
    UNROLL
    for (int p = 0; p < ROWS; ++p) {
      UNROLL
      for (int q = 0; q < COLS; ++q) {
        UNROLL
        for (int u = 0; u < VEC; ++u) acc[p][q][u] = 0;
      }
    }
#if PHASES
    gather_phases(from, taps + LANE_AT(lane), d, t, acc);
#else
    gather_window(from, taps + LANE_AT(lane), d, t, acc);
#endif
    UNROLL
    for (int p = 0; p < ROWS; ++p) {
      UNROLL
      for (int q = 0; q < COLS; ++q)
        if ((u32)(t.row + p) < (u32)d.dst_h && (u32)(t.col + q) < (u32)d.dst_w)
          scale_and_store(to + (i64)(p * d.dst_w + q) * d.channels, acc[p][q], alpha, beta FUSED_ARGUMENTS);
    }
  }
}
