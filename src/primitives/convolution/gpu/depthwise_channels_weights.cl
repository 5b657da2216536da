// Backward weights of NHWC depthwise convolution. A block processes every BLOCKS(0)-th group of row tiles (COLS
// outputs) for TAP_ROWS rows of the filters and writes its partial sums, which add_partials reduces.
// Options: IN, OUT, FILTER_H, FILTER_W, STRIDE (1, 2), VEC, COLS, TAP_ROWS.
// SPDX-License-Identifier: MIT
#define DIRECTION 2
#define ROWS 1
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"
#include "kernels/gpu/portable/depthwise.h"
#include "kernels/gpu/portable/partials.h"

#define ROW_W ((COLS - 1) * STRIDE + FILTER_W)

INLINE void load_dy(GLOBAL const in_t* dy, DepthwiseShape d, int row, int col, int inside, sum_t (*dy_values)[VEC]) {
  UNROLL
  for (int q = 0; q < COLS; ++q)
    load_or_zero(dy + (i64)(row * d.dst_w + col + q) * d.channels, inside && col + q < d.dst_w, dy_values[q]);
}

/// Adds the products of COLS outputs of a row to TAP_ROWS rows of the filter, from `first_row` on.
INLINE void add_taps(GLOBAL const in_t* x, GLOBAL const in_t* dy, DepthwiseShape d, Tile t, int first_row,
                     sum_t (*acc)[FILTER_W][VEC]) {
  sum_t dy_values[COLS][VEC];
  load_dy(dy, d, t.row, t.col, 1, dy_values);
  const int w0 = t.col * STRIDE - d.pad_w;
  UNROLL
  for (int r = 0; r < TAP_ROWS; ++r) {
    const int h = t.row * STRIDE - d.pad_h + first_row + r;
    if (first_row + r >= FILTER_H || (u32)h >= (u32)d.src_h) continue;
    sum_t v[ROW_W][VEC];
    UNROLL
    for (int j = 0; j < ROW_W; ++j)
      load_or_zero(x + (i64)(h * d.src_w + w0 + j) * d.channels, (u32)(w0 + j) < (u32)d.src_w, v[j]);
    UNROLL
    for (int q = 0; q < COLS; ++q) {
      UNROLL
      for (int s = 0; s < FILTER_W; ++s) multiply_add(v[q * STRIDE + s], dy_values[q], acc[r][s]);
    }
  }
}

/// partials[block][channel][tap].
KERNEL THREADS_PER_BLOCK(THREADS)
    depthwise_channels_weights(GLOBAL const in_t* RESTRICT x, GLOBAL const in_t* RESTRICT dy, GLOBAL sum_t* partials,
                               const DepthwiseShape d, const int tiles) {
  SHARED sum_t sums[THREADS * VEC];
  const int width = d.vectors * VEC, c0 = BLOCK(1) * width, slots = THREADS / d.vectors;
  const int slot = THREAD(0) / d.vectors, lane = THREAD(0) - slot * d.vectors, c = c0 + lane * VEC;
  const int first_row = BLOCK(2) * TAP_ROWS, rows = d.dst_h, cols = CEIL_DIV(d.dst_w, COLS);
  GLOBAL sum_t* results = (GLOBAL sum_t*)align16(partials);
  sum_t acc[TAP_ROWS][FILTER_W][VEC];
  UNROLL
  for (int r = 0; r < TAP_ROWS; ++r) {
    UNROLL
    for (int s = 0; s < FILTER_W; ++s) {
      UNROLL
      for (int u = 0; u < VEC; ++u) acc[r][s][u] = 0;
    }
  }
  if (slot < slots && c < d.channels)
    for (int i = BLOCK(0) * slots + slot; i < tiles; i += BLOCKS(0) * slots) {
      const Tile t = tile_at(i, rows, cols, 1);
      GLOBAL const in_t* from_x = x + (i64)t.image * d.src_h * d.src_w * d.channels + c;
      GLOBAL const in_t* from_dy = dy + (i64)t.image * d.dst_h * d.dst_w * d.channels + c;
      add_taps(from_x, from_dy, d, t, first_row, acc);
    }
  // One tap at a time: adds up the slots in order.
  UNROLL
  for (int r = 0; r < TAP_ROWS; ++r) {
    UNROLL
    for (int s = 0; s < FILTER_W; ++s) {
      BARRIER();
      UNROLL
      for (int u = 0; u < VEC; ++u)
        if (slot < slots) sums[slot * width + lane * VEC + u] = acc[r][s][u];
      BARRIER();
      if (THREAD(0) < width && c0 + THREAD(0) < d.channels && first_row + r < FILTER_H) {
        sum_t sum = 0;
        for (int k = 0; k < slots; ++k) sum += sums[k * width + THREAD(0)];
        results[((i64)BLOCK(0) * d.channels + c0 + THREAD(0)) * TAPS + (first_row + r) * FILTER_W + s] = sum;
      }
    }
  }
}
