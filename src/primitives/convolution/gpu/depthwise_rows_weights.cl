// Backward weights of NHWC depthwise 3x3 convolution with stride 1: a block processes a list of column tiles (TILE_W
// columns, d.band rows) row by row, prefetching rows of x and dy into rings in local memory, and writes the partial
// sums of all its rows, which add_partials reduces. A thread computes four channels of COLS columns and keeps three
// rows of dy.
// Options: IN, OUT, CHANNELS (per block), TILE_W, COLS, STAGES (rows of a ring).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"
#include "kernels/gpu/portable/local_copy.h"
#include "kernels/gpu/portable/partials.h"
#include "kernels/gpu/portable/column_tile.h"

#define FILTER 3
#define TAPS 9
#define IN_W (TILE_W + FILTER - 1)
#define WINDOW (COLS + FILTER - 1)
#define X_CHUNKS (IN_W * CHANNELS / CHUNK)
#define X_CHUNKS_PER_THREAD CEIL_DIV(X_CHUNKS, THREADS)
#define DY_CHUNKS (TILE_W * CHANNELS / CHUNK)
#define DY_CHUNKS_PER_THREAD CEIL_DIV(DY_CHUNKS, THREADS)

/// Offsets of the thread's chunks within the rows of a column tile.
INLINE void locate_row_chunks(const DepthwiseShape* d, ColumnTile tile, int block_channels, int* x_offsets,
                              int* dy_offsets) {
  locate_chunks(x_offsets, X_CHUNKS_PER_THREAD, tile.col0 - d->pad_w, d->src_w, block_channels, d->channels);
  locate_chunks(dy_offsets, DY_CHUNKS_PER_THREAD, tile.col0, d->dst_w, block_channels, d->channels);
}

/// Copies row `row` of a column tile, of x and of dy; both are at the block's first channel. Rows of dy past the column
/// tile are zeros: the first rows of x of the next column tile contribute nothing to them.
INLINE void copy_rows(LOCAL in_t* x_row, LOCAL in_t* dy_row, GLOBAL const in_t* x, GLOBAL const in_t* dy,
                      const DepthwiseShape* d, ColumnTile tile, int row, const int* x_offsets, const int* dy_offsets) {
  const int h = tile.row0 + row - d->pad_h;
  copy_row(x_row, x + ((i64)tile.image * d->src_h + h) * (d->src_w * d->channels), (u32)h < (u32)d->src_h, x_offsets,
           X_CHUNKS_PER_THREAD, X_CHUNKS);
  copy_row(dy_row, dy + ((i64)tile.image * d->dst_h + tile.row0 + row) * (d->dst_w * d->channels), row < tile.rows,
           dy_offsets, DY_CHUNKS_PER_THREAD, DY_CHUNKS);
  commit_copies();
}

/// Multiplies a row of x with dy_0, dy_1 and dy_2, the rows of dy that read it with filter rows 0, 1, 2.
INLINE void multiply_row(LOCAL const in_t* src_row, const sum_t (*dy_0)[4], const sum_t (*dy_1)[4],
                         const sum_t (*dy_2)[4], sum_t (*acc)[4]) {
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
          acc[s][u] = MULTIPLY_ADD(v[u], dy_0[q][u], acc[s][u]);
          acc[FILTER + s][u] = MULTIPLY_ADD(v[u], dy_1[q][u], acc[FILTER + s][u]);
          acc[2 * FILTER + s][u] = MULTIPLY_ADD(v[u], dy_2[q][u], acc[2 * FILTER + s][u]);
        }
      }
    }
  }
}

/// partials[block][channel][tap].
KERNEL THREADS_PER_BLOCK(THREADS)
    depthwise_rows_weights(GLOBAL const in_t* RESTRICT x, GLOBAL const in_t* RESTRICT dy, GLOBAL sum_t* partials,
                           const DepthwiseShape d, const int column_tiles) {
  SHARED in_t x_ring[STAGES * IN_W * CHANNELS] __attribute__((aligned(16)));
  SHARED in_t dy_ring[STAGES * TILE_W * CHANNELS] __attribute__((aligned(16)));
  SHARED sum_t sums[THREADS * 4];
  const int c0 = BLOCK(1) * CHANNELS, block_channels = MIN(CHANNELS, d.channels - c0);
  const int rows_per_tile = d.band + FILTER - 1,
            total_rows = CEIL_DIV(column_tiles - BLOCK(0), BLOCKS(0)) * rows_per_tile;
  GLOBAL const in_t *block_x = x + c0, *block_dy = dy + c0;
  ColumnTile column_tile = column_tile_at(BLOCK(0), d.dst_h, d.dst_w, d.band);
  int x_offsets[X_CHUNKS_PER_THREAD], dy_offsets[DY_CHUNKS_PER_THREAD], index = BLOCK(0), row = 0;  // of the next copy
  locate_row_chunks(&d, column_tile, block_channels, x_offsets, dy_offsets);
  for (; row < STAGES - 1; ++row)
    copy_rows(x_ring + row * (IN_W * CHANNELS), dy_ring + row * (TILE_W * CHANNELS), block_x, block_dy, &d, column_tile,
              row, x_offsets, dy_offsets);
  const int c = THREAD(0) % LANES * 4, col = THREAD(0) / LANES * COLS;
  sum_t dy_rows[FILTER][COLS][4], acc[TAPS][4];
  UNROLL
  for (int r = 0; r < FILTER; ++r) {
    UNROLL
    for (int q = 0; q < COLS; ++q) {
      UNROLL
      for (int u = 0; u < 4; ++u) dy_rows[r][q][u] = 0;
    }
  }
  UNROLL
  for (int t = 0; t < TAPS; ++t) {
    UNROLL
    for (int u = 0; u < 4; ++u) acc[t][u] = 0;
  }
  int read_slot = 0, write_slot = STAGES - 1;  // slots of the rings
  NO_UNROLL
  for (int i0 = 0; i0 < total_rows; i0 += FILTER) {
    UNROLL
    for (int phase = 0; phase < FILTER; ++phase) {
      WAIT_FOR_COPY_GROUPS(STAGES - 2);
      if (i0 + phase >= total_rows) continue;
      if (row == rows_per_tile) {
        row = 0;
        index += BLOCKS(0);
        column_tile = column_tile_at(index, d.dst_h, d.dst_w, d.band);
        locate_row_chunks(&d, column_tile, block_channels, x_offsets, dy_offsets);
      }
      if (index < column_tiles)
        copy_rows(x_ring + write_slot * (IN_W * CHANNELS), dy_ring + write_slot * (TILE_W * CHANNELS), block_x,
                  block_dy, &d, column_tile, row++, x_offsets, dy_offsets);
      else
        commit_copies();
      UNROLL
      for (int q = 0; q < COLS; ++q)
        local_load_4(dy_ring + (read_slot * TILE_W + col + q) * CHANNELS + c, dy_rows[phase][q]);
      multiply_row(x_ring + (read_slot * IN_W + col) * CHANNELS + c, dy_rows[phase], dy_rows[(phase + 2) % FILTER],
                   dy_rows[(phase + 1) % FILTER], acc);
      read_slot = next_slot(read_slot);
      write_slot = next_slot(write_slot);
    }
  }
  GLOBAL sum_t* results = (GLOBAL sum_t*)align16(partials);
  UNROLL
  for (int t = 0; t < TAPS; ++t) {
    BARRIER();
    UNROLL
    for (int u = 0; u < 4; ++u) sums[THREAD(0) * 4 + u] = acc[t][u];
    BARRIER();
    for (int i = THREAD(0); i < block_channels; i += THREADS) {
      sum_t sum = 0;
      for (int k = 0; k < SLOTS; ++k) sum += sums[k * CHANNELS + i];
      results[((i64)BLOCK(0) * d.channels + c0 + i) * TAPS + t] = sum;
    }
  }
}
