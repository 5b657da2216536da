// NHWC depthwise convolution with stride 1, forward and backward data: a block holds a tile of src in local memory; a
// thread computes four channels of ROWS rows by COLS columns of dst.
// Options: IN, OUT, DIRECTION (0, 1), FILTER (square), CHANNELS (per block), TILE_H, TILE_W, ROWS, COLS;
// forward with an epilogue: FUSES.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"
#include "kernels/gpu/portable/local_copy.h"
#include "kernels/gpu/portable/depthwise_epilogue.h"

#define LANES (CHANNELS / 4)
#define SLOTS_W (TILE_W / COLS)
#define THREADS (LANES * SLOTS_W * (TILE_H / ROWS))
#define IN_H (TILE_H + FILTER - 1)
#define IN_W (TILE_W + FILTER - 1)
#define WINDOW (COLS + FILTER - 1)
#define TAPS (FILTER * FILTER)

INLINE void load_window(LOCAL const in_t* src, sum_t (*v)[4]) {
  UNROLL
  for (int j = 0; j < WINDOW; ++j) local_load_4(src + j * CHANNELS, v[j]);
}

INLINE void multiply_row(const sum_t (*v)[4], const sum_t (*taps)[4], sum_t (*acc)[4]) {
  UNROLL
  for (int s = 0; s < FILTER; ++s) {
    UNROLL
    for (int q = 0; q < COLS; ++q) {
      UNROLL
      for (int u = 0; u < 4; ++u) acc[q][u] = MULTIPLY_ADD(v[q + s][u], taps[s][u], acc[q][u]);
    }
  }
}

INLINE void store_row(GLOBAL out_t* dst, int channels, int valid_cols, const sum_t (*acc)[4], float alpha,
                      float beta FUSED_PARAMETERS) {
  UNROLL
  for (int q = 0; q < COLS; ++q)
    if (q < valid_cols) store4_finished(dst + q * channels, acc[q], alpha, beta FUSED_ARGUMENTS);
}

KERNEL THREADS_PER_BLOCK(THREADS)
    depthwise_tiles(GLOBAL const in_t* RESTRICT src, GLOBAL const in_t* RESTRICT w, GLOBAL out_t* dst,
                    const DepthwiseShape d, const float alpha, const float beta EPILOGUE_PARAMETERS) {
  SHARED in_t tile[IN_H * IN_W * CHANNELS] __attribute__((aligned(16)));
  SHARED sum_t filter[TAPS * CHANNELS] __attribute__((aligned(16)));
  const int channel_blocks = CEIL_DIV(d.channels, CHANNELS), rows = CEIL_DIV(d.dst_h, TILE_H),
            cols = CEIL_DIV(d.dst_w, TILE_W);
  const int c0 = BLOCK(0) % channel_blocks * CHANNELS, tile_index = BLOCK(0) / channel_blocks,
            image = tile_index / (rows * cols);
  const int row0 = tile_index / cols % rows * TILE_H, col0 = tile_index % cols * TILE_W,
            block_channels = MIN(CHANNELS, d.channels - c0);
  copy_tile(tile, src + (i64)image * d.src_h * d.src_w * d.channels + c0, row0 - d.pad_h, col0 - d.pad_w, IN_H, IN_W,
            CHANNELS, CHANNELS, d.src_h, d.src_w, block_channels, d.channels, THREAD(0), THREADS);
  for (int i = THREAD(0); i < CHANNELS * TAPS; i += THREADS) {
    const int c = i / TAPS, tap = i - c * TAPS;
    filter[(DIRECTION == 1 ? TAPS - 1 - tap : tap) * CHANNELS + c] =
        c < block_channels ? LOAD(IN, w, c0 * TAPS + i) : 0;
  }
  wait_for_all_copies();
  const int lane = THREAD(0) % LANES, slot = THREAD(0) / LANES;
  const int col = slot % SLOTS_W * COLS, row = slot / SLOTS_W * ROWS, c = lane * 4;
  if (c >= block_channels) return;
  LOAD_TERMS(4, c0 + c);
  LOCAL const in_t* src_window = tile + (row * IN_W + col) * CHANNELS + c;
  LOCAL const sum_t* filter_taps = filter + c;
  const int valid_rows = d.dst_h - row0 - row, valid_cols = d.dst_w - col0 - col;
  GLOBAL out_t* dst_tile = dst + (((i64)image * d.dst_h + row0 + row) * d.dst_w + col0 + col) * d.channels + c0 + c;
  sum_t acc[ROWS][COLS][4];
  UNROLL
  for (int p = 0; p < ROWS; ++p) {
    UNROLL
    for (int q = 0; q < COLS; ++q) {
      UNROLL
      for (int u = 0; u < 4; ++u) acc[p][q][u] = 0;
    }
  }
  NO_UNROLL
  for (int r = 0; r < FILTER; ++r) {
    sum_t taps[FILTER][4];
    UNROLL
    for (int s = 0; s < FILTER; ++s) local_load4(filter_taps + (r * FILTER + s) * CHANNELS, taps[s]);
    UNROLL
    for (int p = 0; p < ROWS; ++p) {
      sum_t v[WINDOW][4];
      load_window(src_window + (p + r) * IN_W * CHANNELS, v);
      multiply_row(v, taps, acc[p]);
    }
  }
  UNROLL
  for (int p = 0; p < ROWS; ++p)
    if (p < valid_rows)
      store_row(dst_tile + (i64)p * d.dst_w * d.channels, d.channels, valid_cols, acc[p], alpha, beta FUSED_ARGUMENTS);
}
