// NHWC depthwise 3x3 convolution with stride 1, forward and backward data: a block processes a column tile (TILE_W
// columns, d.band rows) row by row, prefetching src rows into a ring in local memory. A thread computes four channels
// of COLS columns and accumulates each src row into the three dst rows that it belongs to.
// Options: IN, OUT, DIRECTION (0, 1), CHANNELS (per block), TILE_W, COLS, STAGES (rows of the ring); forward
// with an epilogue: FUSES.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"
#include "kernels/gpu/portable/local_copy.h"
#include "kernels/gpu/portable/depthwise_epilogue.h"
#include "kernels/gpu/portable/column_tile.h"

#define FILTER 3
#define TAPS 9
#define IN_W (TILE_W + FILTER - 1)
#define WINDOW (COLS + FILTER - 1)
#define ROW_CHUNKS (IN_W * CHANNELS / CHUNK)
#define CHUNKS_PER_THREAD CEIL_DIV(ROW_CHUNKS, THREADS)

/// Multiplies a row of src with the three filter rows: `first` is overwritten, `second` and `third` accumulate.
INLINE void multiply_row(LOCAL const in_t* src_row, const sum_t (*taps)[4], sum_t (*first)[4], sum_t (*second)[4],
                         sum_t (*third)[4]) {
  UNROLL
  for (int j = 0; j < WINDOW; ++j) {
    sum_t v[4];
    local_load_4(src_row + j * CHANNELS, v);
    UNROLL
    for (int s = 0; s < FILTER; ++s) {
      const int q = j - s;
      if (q >= 0 && q < COLS) {
        UNROLL
        for (int u = 0; u < 4; ++u) {
          first[q][u] = s == 0 ? v[u] * taps[0][u] : MULTIPLY_ADD(v[u], taps[s][u], first[q][u]);
          second[q][u] = MULTIPLY_ADD(v[u], taps[FILTER + s][u], second[q][u]);
          third[q][u] = MULTIPLY_ADD(v[u], taps[2 * FILTER + s][u], third[q][u]);
        }
      }
    }
  }
}

#ifdef FUSES  // bounds the registers, so that as many threads are resident as without an epilogue
#define BOUNDS THREADS_PER_BLOCK_OF(THREADS, MAX(1, (COLS > 4 ? 384 : 512) / (CEIL_DIV(THREADS, 32) * 32)))
#else
#define BOUNDS THREADS_PER_BLOCK(THREADS)
#endif

KERNEL BOUNDS depthwise_rows(GLOBAL const in_t* RESTRICT src, GLOBAL const in_t* RESTRICT w, GLOBAL out_t* dst,
                             const DepthwiseShape d, const float alpha, const float beta EPILOGUE_PARAMETERS) {
  SHARED in_t ring[STAGES * IN_W * CHANNELS] __attribute__((aligned(16)));
  const int channel_blocks = CEIL_DIV(d.channels, CHANNELS), c0 = BLOCK(0) % channel_blocks * CHANNELS,
            block_channels = MIN(CHANNELS, d.channels - c0);
  const ColumnTile tile = column_tile_at(BLOCK(0) / channel_blocks, d.dst_h, d.dst_w, d.band);
  const int rows = tile.rows + FILTER - 1, src_row_stride = d.src_w * d.channels;
  GLOBAL const in_t* plane = src + (i64)tile.image * d.src_h * src_row_stride + c0;
  int chunk_offsets[CHUNKS_PER_THREAD], copied_row = tile.row0 - d.pad_h;
  locate_chunks(chunk_offsets, CHUNKS_PER_THREAD, tile.col0 - d.pad_w, d.src_w, block_channels, d.channels);
  for (int i = 0; i < STAGES - 1; ++i, ++copied_row) {
    copy_row(ring + i * (IN_W * CHANNELS), plane + (i64)copied_row * src_row_stride, (u32)copied_row < (u32)d.src_h,
             chunk_offsets, CHUNKS_PER_THREAD, ROW_CHUNKS);
    commit_copies();
  }
  const int c = THREAD(0) % LANES * 4, col = THREAD(0) / LANES * COLS;
  sum_t taps[TAPS][4], acc[FILTER][COLS][4];
  UNROLL
  for (int t = 0; t < TAPS; ++t) {  // four of the 36 taps of four channels at a time
    sum_t v[4] = {0, 0, 0, 0};
    if (c < block_channels) load4(w + (c0 + c) * TAPS + t * 4, v);
    UNROLL
    for (int u = 0; u < 4; ++u) {
      const int i = t * 4 + u, tap = i % TAPS;
      taps[DIRECTION == 1 ? TAPS - 1 - tap : tap][i / TAPS] = alpha * v[u];
    }
  }
  STAGE_TERMS(CHANNELS, c0, block_channels);
  UNROLL
  for (int r = 0; r < FILTER; ++r) {
    UNROLL
    for (int q = 0; q < COLS; ++q) {
      UNROLL
      for (int u = 0; u < 4; ++u) acc[r][q][u] = 0;
    }
  }
  const int valid_cols = c < block_channels ? d.dst_w - tile.col0 - col : 0, dst_row_stride = d.dst_w * d.channels;
  GLOBAL out_t* dst_row =
      dst + (((i64)tile.image * d.dst_h + tile.row0) * d.dst_w + tile.col0 + col) * d.channels + c0 + c;
  int read_slot = 0, write_slot = STAGES - 1;  // slots of the ring
  NO_UNROLL
  for (int i0 = 0; i0 < rows; i0 += FILTER) {
    UNROLL
    for (int phase = 0; phase < FILTER; ++phase) {
      const int i = i0 + phase;
      WAIT_FOR_COPY_GROUPS(STAGES - 2);
      if (i >= rows) continue;
      copy_row(ring + write_slot * (IN_W * CHANNELS), plane + (i64)copied_row * src_row_stride,
               (u32)copied_row < (u32)d.src_h && i + STAGES - 1 < rows, chunk_offsets, CHUNKS_PER_THREAD, ROW_CHUNKS);
      commit_copies();
      sum_t(*finished)[4] = acc[(phase + 1) % FILTER];
      multiply_row(ring + (read_slot * IN_W + col) * CHANNELS + c, taps, acc[phase], acc[(phase + 2) % FILTER],
                   finished);
      if (i >= FILTER - 1) {
        STAGED_TERMS(4, c);
        UNROLL
        for (int q = 0; q < COLS; ++q)
          if (q < valid_cols) store4_finished(dst_row + q * d.channels, finished[q], 1, beta FUSED_ARGUMENTS);
        dst_row += dst_row_stride;
      }
      ++copied_row;
      read_slot = next_slot(read_slot);
      write_slot = next_slot(write_slot);
    }
  }
}
