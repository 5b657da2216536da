// Backward weights of depthwise_matrix.cl: one mma multiplies sixteen pixels of a row of dy with those of x at two
// horizontal shifts, for eight channels; the diagonals of the sums are two taps. A block processes a list of column
// tiles (TILE_W columns, d.band rows) row by row, prefetching rows of x and dy into rings in local memory, and writes
// the partial sums of all its rows, which add_partials reduces. A warp keeps FILTER rows of dy and the sums of all taps
// in registers.
// Options: IN, OUT, FILTER (square, odd), CHANNELS (per block), TILE_W, IMAGES, PER_WARP, STAGES (rows of a ring, at
// most one more than the x rows of a column tile), RESIDENT (blocks per multiprocessor).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/depthwise_matrix.h"
#include "kernels/gpu/portable/partials.h"

#define SHIFTS CEIL_DIV(FILTER, 2)  // pairs of horizontal taps
#define X_ROW_BYTES ((WIDTH + IMAGES * (FILTER - 1) + 1) * PITCH * BYTES)
#define DY_ROW_BYTES (WIDTH * PITCH * BYTES)
#define X_CHUNKS (IMAGES * IN_W * GROUPS)
#define X_CHUNKS_PER_THREAD CEIL_DIV(X_CHUNKS, THREADS)
#define DY_CHUNKS (IMAGES * TILE_W * GROUPS)
#define DY_CHUNKS_PER_THREAD CEIL_DIV(DY_CHUNKS, THREADS)

/// Rows of x that a column tile reads, at least one, up to the last one inside of the plane.
INLINE int x_rows_of(const DepthwiseShape* d, ColumnTile tile) {
  return MAX(1, MIN(tile.rows + FILTER - 1, d->src_h + d->pad_h - tile.row0));
}

/// The next rows of x and dy to copy, their chunk offsets and the numbers of rows left in their column tile.
typedef struct {
  GLOBAL const in_t *x, *dy;
  int row, rows_left, dy_rows_left;
  int x_offsets[X_CHUNKS_PER_THREAD], dy_offsets[DY_CHUNKS_PER_THREAD];
} Source;

/// Sets all but the chunk offsets. x and dy are at the block's first channel. `valid` is 0 after the last column tile:
/// then nothing is copied.
INLINE void start_tile(Source* source, ColumnTile tile, int valid, GLOBAL const in_t* x, GLOBAL const in_t* dy,
                       const DepthwiseShape* d) {
  const int row = tile.row0 - d->pad_h;
  source->row = valid ? row : d->src_h;
  source->rows_left = x_rows_of(d, tile);
  source->dy_rows_left = valid ? tile.rows : 0;
  source->x = x + ((i64)tile.image * d->src_h + row) * (d->src_w * d->channels);
  source->dy = dy + ((i64)tile.image * d->dst_h + tile.row0) * (d->dst_w * d->channels);
}

INLINE void locate_source(Source* source, ColumnTile tile, int channels, const DepthwiseShape* d) {
  const int images = d->images - tile.image;
  locate_row_chunks(source->x_offsets, X_CHUNKS_PER_THREAD, IN_W, tile.col0 - d->pad_w, images, d->src_h, d->src_w,
                    channels, d->channels);
  locate_row_chunks(source->dy_offsets, DY_CHUNKS_PER_THREAD, TILE_W, tile.col0, images, d->dst_h, d->dst_w, channels,
                    d->channels);
}

INLINE void copy_rows_async(Source* source, u32 x_row, u32 dy_row, const DepthwiseShape* d) {
  if ((u32)source->row < (u32)d->src_h) copy_chunks(x_row, source->x, source->x_offsets, X_CHUNKS_PER_THREAD, X_CHUNKS);
  if (source->dy_rows_left > 0) copy_chunks(dy_row, source->dy, source->dy_offsets, DY_CHUNKS_PER_THREAD, DY_CHUNKS);
  source->x += d->src_w * d->channels;
  source->dy += d->dst_w * d->channels;
  ++source->row;
  --source->rows_left;
  --source->dy_rows_left;
  commit_copies();
}

/// Multiplies a row of x with the FILTER rows of dy whose windows contain it.
INLINE void multiply_row(u32 x, const u32 (*dy_rows)[PER_WARP][2], const int phase, float (*acc)[SHIFTS][4]) {
  UNROLL
  for (int t = 0; t < PER_WARP; ++t) {
    UNROLL
    for (int s = 0; s < SHIFTS; ++s) {
      u32 v[4];
      load_4_transposed(x + (t * IN_STEP + s * 2) * PITCH * BYTES, v);
      UNROLL
      for (int r = 0; r < FILTER; ++r) mma_16x8x16(v, dy_rows[(phase + FILTER - r) % FILTER][t], acc[r][s]);
    }
  }
}

/// partials[block][channel][tap].
KERNEL THREADS_PER_BLOCK_OF(THREADS, RESIDENT)
    depthwise_matrix_weights(GLOBAL const in_t* RESTRICT x, GLOBAL const in_t* RESTRICT dy, GLOBAL sum_t* partials,
                             const DepthwiseShape d, const int column_tiles) {
  SHARED in_t x_ring[MAX(STAGES * X_ROW_BYTES, CHANNELS * TAPS * 4) / BYTES] __attribute__((aligned(16)));
  SHARED in_t dy_ring[STAGES * DY_ROW_BYTES / BYTES] __attribute__((aligned(16)));
  LOCAL sum_t* sums = (LOCAL sum_t*)x_ring;  // reused after the last row
  const int c0 = BLOCK(1) * CHANNELS, channels = MIN(CHANNELS, d.channels - c0);
  const int warp = THREAD(0) / 32, lane = THREAD(0) % 32, c = warp % GROUPS * 8, part = warp / GROUPS;
  // Padding pixels are never copied to: they stay zero.
  for (int i = THREAD(0); i < STAGES * X_ROW_BYTES / 4; i += THREADS) ((LOCAL u32*)x_ring)[i] = 0;
  for (int i = THREAD(0); i < STAGES * DY_ROW_BYTES / 4; i += THREADS) ((LOCAL u32*)dy_ring)[i] = 0;
  BARRIER();
  const u32 x_ring_at = address_in_register(x_ring), dy_ring_at = address_in_register(dy_ring);
  const u32 x_copy_at = chunk_address(x_ring_at), dy_copy_at = chunk_address(dy_ring_at);
  const int pixel = part * PER_WARP * 16;
  const u32 x_at = x_ring_at + ((pixel + lane % 8 + lane / 8 % 2 + lane / 16 * 8) * PITCH + c) * BYTES;
  const u32 dy_at = dy_ring_at + ((pixel + lane % 16) * PITCH + c) * BYTES;
  ColumnTile tile = images_column_tile(BLOCK(0), &d);
  Source source;
  start_tile(&source, tile, 1, x + c0, dy + c0, &d);
  locate_source(&source, tile, channels, &d);
  for (int i = 0; i < STAGES - 1; ++i)
    copy_rows_async(&source, x_copy_at + i * X_ROW_BYTES, dy_copy_at + i * DY_ROW_BYTES, &d);
  float acc[FILTER][SHIFTS][4];
  UNROLL
  for (int r = 0; r < FILTER; ++r) {
    UNROLL
    for (int s = 0; s < SHIFTS; ++s) {
      UNROLL
      for (int u = 0; u < 4; ++u) acc[r][s][u] = 0;
    }
  }
  int read_slot = 0, write_slot = STAGES - 1;  // slots of the rings
  NO_UNROLL
  for (int index = BLOCK(0); index < column_tiles; index += BLOCKS(0)) {
    const int rows = tile.rows, x_rows = x_rows_of(&d, tile), row0 = tile.row0 - d.pad_h;
    const ColumnTile next_tile = images_column_tile(index + BLOCKS(0), &d);
    Source next_source = source;
    start_tile(&next_source, next_tile, index + BLOCKS(0) < column_tiles, x + c0, dy + c0, &d);
    if (!same_columns(&d, tile, next_tile)) locate_source(&next_source, next_tile, channels, &d);
    tile = next_tile;
    u32 dy_rows[FILTER][PER_WARP][2];
    UNROLL
    for (int r = 0; r < FILTER; ++r) {
      UNROLL
      for (int t = 0; t < PER_WARP; ++t) dy_rows[r][t][0] = dy_rows[r][t][1] = 0;
    }
    NO_UNROLL
    for (int i0 = 0; i0 < x_rows; i0 += FILTER) {
      UNROLL
      for (int phase = 0; phase < FILTER; ++phase) {
        const int i = i0 + phase;
        if (i >= x_rows) continue;
        WAIT_FOR_COPY_GROUPS(STAGES - 2);
        if (source.rows_left == 0) source = next_source;
        copy_rows_async(&source, x_copy_at + write_slot * X_ROW_BYTES, dy_copy_at + write_slot * DY_ROW_BYTES, &d);
        UNROLL
        for (int t = 0; t < PER_WARP; ++t) {
          dy_rows[phase][t][0] = dy_rows[phase][t][1] = 0;
          if (i < rows) load_2_transposed(dy_at + read_slot * DY_ROW_BYTES + t * 16 * PITCH * BYTES, dy_rows[phase][t]);
        }
        if ((u32)(row0 + i) < (u32)d.src_h) multiply_row(x_at + read_slot * X_ROW_BYTES, dy_rows, phase, acc);
        write_slot = read_slot;
        read_slot = next_slot(read_slot);
      }
    }
  }
  // Lanes that hold diagonal elements add them up, one warp of a row after another.
  const int on_diagonal = lane / 8 == lane % 4, odd = lane / 4 % 2;
  NO_UNROLL
  for (int k = 0; k < PARTS; ++k) {
    BARRIER();
    if (k != part || !on_diagonal) continue;
    LOCAL sum_t* channel_sums = sums + (c + lane / 4) * TAPS;
    UNROLL
    for (int r = 0; r < FILTER; ++r) {
      UNROLL
      for (int s = 0; s < FILTER; ++s) {
        const float* v = acc[r][s / 2] + s % 2 * 2;
        channel_sums[r * FILTER + s] = (k > 0 ? channel_sums[r * FILTER + s] : 0) + (odd ? v[1] : v[0]);
      }
    }
  }
  BARRIER();
  GLOBAL sum_t* results = (GLOBAL sum_t*)align16(partials) + ((i64)BLOCK(0) * d.channels + c0) * TAPS;
  for (int i = THREAD(0); i < channels * TAPS; i += THREADS) results[i] = sums[i];
}
