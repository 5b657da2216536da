// The gradient of depthwise 3x3 weights with channels innermost and stride 1: a block walks down some strips of TILE_W
// columns and d.band rows, one behind the other, with the next rows of x and dy on their way to rings in local memory,
// and writes what all its rows give; add_partials sums that up. A thread owns four channels of COLS columns and keeps
// three rows of dy. Told by -D: IN, OUT, CHANNELS (of the block), TILE_W, COLS, STAGES (rows of a ring).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable.h"
#include "kernels/gpu/vector.h"
#include "kernels/gpu/local_copy.h"
#include "kernels/gpu/partials.h"
#include "kernels/gpu/column_tile.h"

#define FILTER 3
#define TAPS 9
#define IN_W (TILE_W + FILTER - 1)
#define WINDOW (COLS + FILTER - 1)
#define PIECES_X (IN_W * CHANNELS / CHUNK)
#define EACH_X CEIL_DIV(PIECES_X, THREADS)
#define PIECES_DY (TILE_W * CHANNELS / CHUNK)
#define EACH_DY CEIL_DIV(PIECES_DY, THREADS)

/// Places of the thread's pieces of the strip's rows.
INLINE void place_rows(const DepthwiseShape* d, ColumnTile s, int count, int* x_pieces, int* dy_pieces) {
  place_pieces(x_pieces, EACH_X, IN_W, s.col0 - d->pad_w, d->src_w, count, d->channels);
  place_pieces(dy_pieces, EACH_DY, TILE_W, s.col0, d->dst_w, count, d->channels);
}

/// Row `row` of a strip, of x and of dy, which are at the first of the block's channels. Rows of dy behind the strip's
/// are zeros: the next strip's first rows of x meet nothing.
INLINE void copy_rows(LOCAL in_t* x_row, LOCAL in_t* dy_row, GLOBAL const in_t* x, GLOBAL const in_t* dy,
                      const DepthwiseShape* d, ColumnTile s, int row, const int* x_pieces, const int* dy_pieces) {
  const int from = s.row0 + row - d->pad_h;
  copy_row(x_row, x + ((i64)s.image * d->src_h + from) * (d->src_w * d->channels), (u32)from < (u32)d->src_h, x_pieces,
           EACH_X, PIECES_X);
  copy_row(dy_row, dy + ((i64)s.image * d->dst_h + s.row0 + row) * (d->dst_w * d->channels), row < s.most, dy_pieces,
           EACH_DY, PIECES_DY);
  end_part_of_copies();
}

/// g: the rows of dy that the rows of the filter meet this one of x in.
INLINE void multiply_row(LOCAL const in_t* from, const sum_t (*g0)[4], const sum_t (*g1)[4], const sum_t (*g2)[4],
                         sum_t (*acc)[4]) {
  UNROLL
  for (int j = 0; j < WINDOW; ++j) {
    sum_t v[4];
    local_load_4(from + j * CHANNELS, v);
    UNROLL
    for (int s = 0; s < FILTER; ++s) {
      const int q = j - s;
      if (q >= 0 && q < COLS) {
        UNROLL
        for (int u = 0; u < 4; ++u) {
          acc[s][u] = MULTIPLY_ADD(v[u], g0[q][u], acc[s][u]);
          acc[FILTER + s][u] = MULTIPLY_ADD(v[u], g1[q][u], acc[FILTER + s][u]);
          acc[2 * FILTER + s][u] = MULTIPLY_ADD(v[u], g2[q][u], acc[2 * FILTER + s][u]);
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
  const int c0 = BLOCK(1) * CHANNELS, count = MIN(CHANNELS, d.channels - c0);
  const int length = d.band + FILTER - 1, rows = CEIL_DIV(column_tiles - BLOCK(0), BLOCKS(0)) * length;
  GLOBAL const in_t *own_x = x + c0, *own_dy = dy + c0;
  ColumnTile column_tile = column_tile_at(BLOCK(0), d.dst_h, d.dst_w, d.band);
  int x_pieces[EACH_X], dy_pieces[EACH_DY], index = BLOCK(0), row = 0;  // of what is copied next
  place_rows(&d, column_tile, count, x_pieces, dy_pieces);
  for (; row < STAGES - 1; ++row)
    copy_rows(x_ring + row * (IN_W * CHANNELS), dy_ring + row * (TILE_W * CHANNELS), own_x, own_dy, &d, column_tile,
              row, x_pieces, dy_pieces);
  const int c = THREAD(0) % LANES * 4, col = THREAD(0) / LANES * COLS;
  sum_t g[FILTER][COLS][4], acc[TAPS][4];
  UNROLL
  for (int r = 0; r < FILTER; ++r) {
    UNROLL
    for (int q = 0; q < COLS; ++q) {
      UNROLL
      for (int u = 0; u < 4; ++u) g[r][q][u] = 0;
    }
  }
  UNROLL
  for (int t = 0; t < TAPS; ++t) {
    UNROLL
    for (int u = 0; u < 4; ++u) acc[t][u] = 0;
  }
  int taken = 0, given = STAGES - 1;  // rows of the rings
  NO_UNROLL
  for (int i0 = 0; i0 < rows; i0 += FILTER) {
    UNROLL
    for (int phase = 0; phase < FILTER; ++phase) {
      WAIT_FOR_COPIES_BUT(STAGES - 2);
      if (i0 + phase >= rows) continue;
      if (row == length) {
        row = 0, index += BLOCKS(0), column_tile = column_tile_at(index, d.dst_h, d.dst_w, d.band);
        place_rows(&d, column_tile, count, x_pieces, dy_pieces);
      }
      if (index < column_tiles)
        copy_rows(x_ring + given * (IN_W * CHANNELS), dy_ring + given * (TILE_W * CHANNELS), own_x, own_dy, &d,
                  column_tile, row++, x_pieces, dy_pieces);
      else
        end_part_of_copies();
      UNROLL
      for (int q = 0; q < COLS; ++q) local_load_4(dy_ring + (taken * TILE_W + col + q) * CHANNELS + c, g[phase][q]);
      multiply_row(x_ring + (taken * IN_W + col) * CHANNELS + c, g[phase], g[(phase + 2) % FILTER],
                   g[(phase + 1) % FILTER], acc);
      taken = taken == STAGES - 1 ? 0 : taken + 1, given = given == STAGES - 1 ? 0 : given + 1;
    }
  }
  GLOBAL sum_t* results = (GLOBAL sum_t*)align16(partials);
  UNROLL
  for (int t = 0; t < TAPS; ++t) {
    BARRIER();
    UNROLL
    for (int u = 0; u < 4; ++u) sums[THREAD(0) * 4 + u] = acc[t][u];
    BARRIER();
    for (int i = THREAD(0); i < count; i += THREADS) {
      sum_t sum = 0;
      for (int k = 0; k < SLOTS; ++k) sum += sums[k * CHANNELS + i];
      results[((i64)BLOCK(0) * d.channels + c0 + i) * TAPS + t] = sum;
    }
  }
}
