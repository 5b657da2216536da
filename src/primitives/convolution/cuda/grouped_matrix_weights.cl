// Backward weights of grouped_matrix.cl: a block processes a list of column tiles (TILE_W columns, g.band rows) row by
// row, prefetching rows of x and dy into rings in local memory, and writes the partial sums of all its rows, which
// add_partials reduces. A warp owns eight input by eight output channels of a group and keeps three rows of dy in
// registers; one mma over sixteen pixels multiplies a row of x with two of them.
// Options: IN, OUT, REDUCED, OUTPUTS (channels per group of x and dy: multiples of 8), GROUPS (per block), TILE_W,
// STAGES (rows of a ring); PLANES for NCHW tensors (of even width), whose rows are copied through registers, otherwise
// NHWC.
// SPDX-License-Identifier: MIT
#define CHANNELS (GROUPS * REDUCED)
#define UNITS (GROUPS * (OUTPUTS / 8) * (REDUCED / 8))
#define THREADS (UNITS * 32)
#define PITCH (CHANNELS + 8)  // elements per pixel: the pixels of a warp are in different banks
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"
#include "kernels/gpu/portable/local_copy.h"
#include "kernels/gpu/portable/octets.h"
#include "kernels/gpu/portable/matrix_units.h"
#include "kernels/gpu/portable/partials.h"
#include "kernels/gpu/portable/column_tile.h"

#define FILTER 3
#define TAPS 9
#define IN_W (TILE_W + FILTER - 1)
#define PARTS_16 CEIL_DIV(TILE_W, 16)
#define PIXELS (PARTS_16 * 16)
#define X_ROW ((PIXELS + FILTER - 1) * PITCH)
#define DY_ROW (PIXELS * PITCH)
#define X_CHUNKS (IN_W * CHANNELS / CHUNK)
#define X_CHUNKS_PER_THREAD CEIL_DIV(X_CHUNKS, THREADS)
#define DY_CHUNKS (TILE_W * CHANNELS / CHUNK)
#define DY_CHUNKS_PER_THREAD CEIL_DIV(DY_CHUNKS, THREADS)
#ifdef PLANES
#define WEIGHT_AT(k, tap, c) (((k)*REDUCED + (c)) * TAPS + (tap))
#else
#define WEIGHT_AT(k, tap, c) (((k)*TAPS + (tap)) * REDUCED + (c))
#endif

#ifdef PLANES

#define PAIRS PAIRS_OF(IN_W)
#define OCTETS (CHANNELS / 8)
#define OCTETS_PER_THREAD \
  CEIL_DIV(2 * PAIRS * OCTETS, THREADS)  // octets of two pixels per thread: those of x, then of dy

typedef struct {
  int is_dy, octet, pair;  // pair: counted from the even column at or before the column tile's first one
} OctetPair;

INLINE OctetPair octet_at(int k) {
  const int i = THREAD(0) + k * THREADS;
  OctetPair p;
  p.is_dy = i >= PAIRS * OCTETS;
  p.octet = i / PAIRS - p.is_dy * OCTETS;
  p.pair = i % PAIRS;
  return p;
}

/// Loads the thread's octets of row `row` of a column tile; x and dy are at the block's first channel.
INLINE void load_rows(GLOBAL const in_t* x, GLOBAL const in_t* dy, const GroupedShape* g, ColumnTile tile, int row,
                      int channels, u32 (*v)[8]) {
  UNROLL
  for (int k = 0; k < OCTETS_PER_THREAD; ++k) {
    const OctetPair p = octet_at(k);
    const int plane_h = p.is_dy ? g->dst_h : g->src_h, plane_w = p.is_dy ? g->dst_w : g->src_w;
    const int h = tile.row0 + row - (p.is_dy ? 0 : g->pad_h), w0 = tile.col0 - (p.is_dy ? 0 : g->pad_w);
    const int w = w0 - (w0 & 1) + p.pair * 2, c = p.octet * 8;
    const int inside = c < channels && (u32)w < (u32)plane_w && (p.is_dy ? row < tile.rows : (u32)h < (u32)plane_h);
    const i64 at = (((i64)tile.image * g->groups * REDUCED + c) * plane_h + h) * plane_w + w;
    load_octet((p.is_dy ? dy : x) + (inside ? at : 0), plane_h * plane_w, inside, v[k]);
  }
}

INLINE void store_rows(LOCAL in_t* x_row, LOCAL in_t* dy_row, const GroupedShape* g, u32 (*v)[8]) {
  UNROLL
  for (int k = 0; k < OCTETS_PER_THREAD; ++k) {
    const OctetPair p = octet_at(k);
    const int left = p.pair * 2 - (p.is_dy ? 0 : g->pad_w & 1), pixels = p.is_dy ? TILE_W : IN_W;
    LOCAL in_t* to = (p.is_dy ? dy_row : x_row) + left * PITCH + p.octet * 8;
    if (p.octet >= OCTETS) continue;
    if (left >= 0 && left < pixels) store_octet(to, v[k], 0);
    if (left + 1 < pixels) store_octet(to + PITCH, v[k], 1);
  }
}

#else

/// Offsets of the thread's chunks within the rows of a column tile.
INLINE void locate_row_chunks(const GroupedShape* g, ColumnTile tile, int channels, int* x_offsets, int* dy_offsets) {
  const int pixel_stride = g->groups * REDUCED;
  locate_chunks(x_offsets, X_CHUNKS_PER_THREAD, tile.col0 - g->pad_w, g->src_w, channels, pixel_stride);
  locate_chunks(dy_offsets, DY_CHUNKS_PER_THREAD, tile.col0, g->dst_w, channels, pixel_stride);
}

/// Copies row `row` of a column tile, of x and of dy; both are at the block's first channel.
INLINE void copy_rows(LOCAL in_t* x_row, LOCAL in_t* dy_row, GLOBAL const in_t* x, GLOBAL const in_t* dy,
                      const GroupedShape* g, ColumnTile tile, int row, const int* x_offsets, const int* dy_offsets) {
  const int from = tile.row0 + row - g->pad_h, pixel_stride = g->groups * REDUCED;
  copy_row(x_row, x + ((i64)tile.image * g->src_h + from) * (g->src_w * pixel_stride), (u32)from < (u32)g->src_h,
           x_offsets, X_CHUNKS_PER_THREAD, X_CHUNKS);
  copy_row(dy_row, dy + ((i64)tile.image * g->dst_h + tile.row0 + row) * (g->dst_w * pixel_stride), row < tile.rows,
           dy_offsets, DY_CHUNKS_PER_THREAD, DY_CHUNKS);
  commit_copies();
}

#endif

/// Multiplies a row of x with the three rows of dy whose windows contain it.
INLINE void multiply_row(LOCAL const in_t* x, const u32 (*g0)[2], const u32 (*g1)[2], const u32 (*g2)[2],
                         float (*acc)[2][4]) {
  UNROLL
  for (int s = 0; s < FILTER; ++s) {
    UNROLL
    for (int t = 0; t < PARTS_16; ++t) {
      u32 v[2];
      load_2_transposed(local_address(x + (t * 16 + s) * PITCH), v);
      const u32 dy_rows_01[4] = {g0[t][0], g1[t][0], g0[t][1], g1[t][1]}, dy_row_2[4] = {g2[t][0], 0, g2[t][1], 0};
      mma_16x8x16(dy_rows_01, v, acc[s][0]);
      mma_16x8x16(dy_row_2, v, acc[s][1]);
    }
  }
}

/// partials[block][element of w], in the order of w.
KERNEL THREADS_PER_BLOCK(THREADS)
    grouped_matrix_weights(GLOBAL const in_t* RESTRICT x, GLOBAL const in_t* RESTRICT dy, GLOBAL sum_t* partials,
                           const GroupedShape g, const int column_tiles) {
  SHARED in_t x_ring[STAGES * X_ROW] __attribute__((aligned(16)));
  SHARED in_t dy_ring[STAGES * DY_ROW] __attribute__((aligned(16)));
  const int first_group = BLOCK(1) * GROUPS, groups = MIN(GROUPS, g.groups - first_group), channels = groups * REDUCED;
  const int rows_per_tile = g.band + FILTER - 1,
            total_rows = CEIL_DIV(column_tiles - BLOCK(0), BLOCKS(0)) * rows_per_tile;
#ifdef PLANES
  GLOBAL const in_t* block_x = x + (i64)first_group * REDUCED * (g.src_h * g.src_w);
  GLOBAL const in_t* block_dy = dy + (i64)first_group * OUTPUTS * (g.dst_h * g.dst_w);
#else
  GLOBAL const in_t *block_x = x + first_group * REDUCED, *block_dy = dy + first_group * OUTPUTS;
#endif
  const int warp = THREAD(0) / 32, lane = THREAD(0) % 32, group = warp / ((OUTPUTS / 8) * (REDUCED / 8));
  const int k0 = warp / (REDUCED / 8) % (OUTPUTS / 8) * 8, c0 = warp % (REDUCED / 8) * 8;
  for (int i = THREAD(0); i < STAGES * X_ROW; i += THREADS) x_ring[i] = 0;  // padding pixels stay zero
  for (int i = THREAD(0); i < STAGES * DY_ROW; i += THREADS) dy_ring[i] = 0;
  BARRIER();
  ColumnTile column_tile = column_tile_at(BLOCK(0), g.dst_h, g.dst_w, g.band);
  int index = BLOCK(0), row = 0;  // of the next copy
#ifdef PLANES
  u32 octets[OCTETS_PER_THREAD][8];
  for (; row < STAGES - 1; ++row) {
    load_rows(block_x, block_dy, &g, column_tile, row, channels, octets);
    store_rows(x_ring + row * X_ROW, dy_ring + row * DY_ROW, &g, octets);
  }
  load_rows(block_x, block_dy, &g, column_tile, row++, channels, octets);
#else
  int x_offsets[X_CHUNKS_PER_THREAD], dy_offsets[DY_CHUNKS_PER_THREAD];
  locate_row_chunks(&g, column_tile, channels, x_offsets, dy_offsets);
  for (; row < STAGES - 1; ++row)
    copy_rows(x_ring + row * X_ROW, dy_ring + row * DY_ROW, block_x, block_dy, &g, column_tile, row, x_offsets,
              dy_offsets);
#endif
  u32 dy_rows[FILTER][PARTS_16][2];
  float acc[FILTER][2][4];
  UNROLL
  for (int r = 0; r < FILTER; ++r) {
    UNROLL
    for (int t = 0; t < PARTS_16; ++t) dy_rows[r][t][0] = dy_rows[r][t][1] = 0;
    UNROLL
    for (int u = 0; u < 4; ++u) acc[r][0][u] = acc[r][1][u] = 0;
  }
  LOCAL const in_t* x_at = x_ring + lane % 16 * PITCH + group * REDUCED + c0;
  LOCAL const in_t* dy_at = dy_ring + lane % 16 * PITCH + group * OUTPUTS + k0;
  int read_slot = 0, write_slot = STAGES - 1;  // slots of the rings
  NO_UNROLL
  for (int i0 = 0; i0 < total_rows; i0 += FILTER) {
    UNROLL
    for (int phase = 0; phase < FILTER; ++phase) {
#ifdef PLANES
      BARRIER();
      if (i0 + phase >= total_rows) continue;
      store_rows(x_ring + write_slot * X_ROW, dy_ring + write_slot * DY_ROW, &g, octets);
      if (row == rows_per_tile) {
        row = 0;
        index += BLOCKS(0);
        column_tile = column_tile_at(index, g.dst_h, g.dst_w, g.band);
      }
      if (index < column_tiles) load_rows(block_x, block_dy, &g, column_tile, row++, channels, octets);
#else
      WAIT_FOR_COPY_GROUPS(STAGES - 2);
      if (i0 + phase >= total_rows) continue;
      if (row == rows_per_tile) {
        row = 0;
        index += BLOCKS(0);
        column_tile = column_tile_at(index, g.dst_h, g.dst_w, g.band);
        locate_row_chunks(&g, column_tile, channels, x_offsets, dy_offsets);
      }
      if (index < column_tiles)
        copy_rows(x_ring + write_slot * X_ROW, dy_ring + write_slot * DY_ROW, block_x, block_dy, &g, column_tile, row++,
                  x_offsets, dy_offsets);
      else
        commit_copies();
#endif
      UNROLL
      for (int t = 0; t < PARTS_16; ++t)
        load_2_transposed(local_address(dy_at + read_slot * DY_ROW + t * 16 * PITCH), dy_rows[phase][t]);
      multiply_row(x_at + read_slot * X_ROW, dy_rows[phase], dy_rows[(phase + 2) % FILTER],
                   dy_rows[(phase + 1) % FILTER], acc);
      read_slot = next_slot(read_slot);
      write_slot = next_slot(write_slot);
    }
  }
  if (group >= groups) return;
  GLOBAL sum_t* results = (GLOBAL sum_t*)align16(partials) +
                          ((i64)BLOCK(0) * g.groups * OUTPUTS + (first_group + group) * OUTPUTS + k0) * TAPS * REDUCED +
                          WEIGHT_AT(0, 0, c0);
  UNROLL
  for (int s = 0; s < FILTER; ++s) {
    UNROLL
    for (int r = 0; r < FILTER; ++r) {
      UNROLL
      for (int u = 0; u < 2; ++u)
        results[WEIGHT_AT(lane / 4, r * FILTER + s, lane % 4 * 2 + u)] = acc[s][r / 2][r % 2 * 2 + u];
    }
  }
}
