// Backward weights of NHWC depthwise convolution with stride 1: a block processes every BLOCKS(0)-th tile of pixels,
// with x and dy in local memory, and writes its partial sums, which add_partials reduces. A thread computes TAP_ROWS
// rows of the filters of four channels over ROWS rows of COLS pixels per tile.
// Options: IN, OUT, FILTER (square), CHANNELS (per block), TILE_H, TILE_W, ROWS, COLS, TAP_ROWS (divides FILTER).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"
#include "kernels/gpu/portable/local_copy.h"
#include "kernels/gpu/portable/partials.h"

#define LANES (CHANNELS / 4)
#define TAP_ROW_GROUPS (FILTER / TAP_ROWS)
#define SLOTS_W (TILE_W / COLS)
#define SLOTS (SLOTS_W * (TILE_H / ROWS))
#define THREADS (LANES * TAP_ROW_GROUPS * SLOTS)
#define IN_H (TILE_H + FILTER - 1)
#define IN_W (TILE_W + FILTER - 1)
#define WINDOW (COLS + FILTER - 1)
#define TAPS (FILTER * FILTER)

/// partials[block][channel][tap].
KERNEL THREADS_PER_BLOCK(THREADS)
    depthwise_tiles_weights(GLOBAL const in_t* RESTRICT x, GLOBAL const in_t* RESTRICT dy, GLOBAL sum_t* partials,
                            const DepthwiseShape d, const int tiles) {
  SHARED in_t x_tile[IN_H * IN_W * CHANNELS] __attribute__((aligned(16)));
  SHARED in_t dy_tile[TILE_H * TILE_W * CHANNELS] __attribute__((aligned(16)));
  SHARED sum_t sums[THREADS * 4];
  const int rows = CEIL_DIV(d.dst_h, TILE_H), cols = CEIL_DIV(d.dst_w, TILE_W);
  const int c0 = BLOCK(1) * CHANNELS, block_channels = MIN(CHANNELS, d.channels - c0);
  const int lane = THREAD(0) % LANES, tap_row_group = THREAD(0) / LANES % TAP_ROW_GROUPS,
            slot = THREAD(0) / LANES / TAP_ROW_GROUPS;
  const int col = slot % SLOTS_W * COLS, row = slot / SLOTS_W * ROWS;
  sum_t acc[TAP_ROWS][FILTER][4];
  UNROLL
  for (int r = 0; r < TAP_ROWS; ++r) {
    UNROLL
    for (int s = 0; s < FILTER; ++s) {
      UNROLL
      for (int u = 0; u < 4; ++u) acc[r][s][u] = 0;
    }
  }
  for (int t = BLOCK(0); t < tiles; t += BLOCKS(0)) {
    const int image = t / (rows * cols), row0 = t / cols % rows * TILE_H, col0 = t % cols * TILE_W;
    BARRIER();
    copy_tile(x_tile, x + (i64)image * d.src_h * d.src_w * d.channels + c0, row0 - d.pad_h, col0 - d.pad_w, IN_H, IN_W,
              CHANNELS, CHANNELS, d.src_h, d.src_w, block_channels, d.channels, THREAD(0), THREADS);
    copy_tile(dy_tile, dy + (i64)image * d.dst_h * d.dst_w * d.channels + c0, row0, col0, TILE_H, TILE_W, CHANNELS,
              CHANNELS, d.dst_h, d.dst_w, block_channels, d.channels, THREAD(0), THREADS);
    wait_for_all_copies();
    LOCAL const in_t* x_window = x_tile + ((row + tap_row_group * TAP_ROWS) * IN_W + col) * CHANNELS + lane * 4;
    LOCAL const in_t* dy_window = dy_tile + (row * TILE_W + col) * CHANNELS + lane * 4;
    NO_UNROLL
    for (int p = 0; p < ROWS; ++p) {
      sum_t dy_row[COLS][4];
      UNROLL
      for (int q = 0; q < COLS; ++q) local_load_4(dy_window + (p * TILE_W + q) * CHANNELS, dy_row[q]);
      UNROLL
      for (int r = 0; r < TAP_ROWS; ++r) {
        UNROLL
        for (int j = 0; j < WINDOW; ++j) {
          sum_t v[4];
          local_load_4(x_window + ((p + r) * IN_W + j) * CHANNELS, v);
          UNROLL
          for (int s = 0; s < FILTER; ++s)
            if (j >= s && j - s < COLS) {
              UNROLL
              for (int u = 0; u < 4; ++u)
                acc[r][s][u] = MULTIPLY_ADD(v[u], dy_row[MIN(MAX(j - s, 0), COLS - 1)][u], acc[r][s][u]);
            }
        }
      }
    }
  }
  // One tap per filter row group at a time: adds up the slots in order.
  GLOBAL sum_t* results = (GLOBAL sum_t*)align16(partials);
  UNROLL
  for (int r = 0; r < TAP_ROWS; ++r) {
    UNROLL
    for (int s = 0; s < FILTER; ++s) {
      BARRIER();
      UNROLL
      for (int u = 0; u < 4; ++u) sums[THREAD(0) * 4 + u] = acc[r][s][u];
      BARRIER();
      for (int i = THREAD(0); i < TAP_ROW_GROUPS * CHANNELS; i += THREADS) {
        const int tap_row = i / CHANNELS * TAP_ROWS + r, c = i % CHANNELS;
        sum_t sum = 0;
        for (int k = 0; k < SLOTS; ++k) sum += sums[k * TAP_ROW_GROUPS * CHANNELS + i];
        if (c < block_channels) results[((i64)BLOCK(0) * d.channels + c0 + c) * TAPS + tap_row * FILTER + s] = sum;
      }
    }
  }
}
