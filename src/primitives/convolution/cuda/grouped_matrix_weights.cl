// The gradient of the weights of grouped_matrix.cl: a block walks down some strips of TILE_W columns and g.band rows,
// one behind the other, with the next rows of x and dy on their way to rings in local memory, and writes what all its
// rows give; add_partials sums that up. A warp owns eight input by eight output channels of a group and keeps three
// rows of dy, two of which meet a row of x in one product over sixteen pixels. Told by -D: IN, OUT, REDUCED, OUTPUTS
// (channels of a group of x and dy: multiples of 8), GROUPS (of a block), TILE_W, STAGES (rows of a ring); PLANES where
// rows are innermost in memory (of even width), from where rows come through registers. SPDX-License-Identifier: MIT
#define CHANNELS (GROUPS * REDUCED)
#define UNITS (GROUPS * (OUTPUTS / 8) * (REDUCED / 8))
#define THREADS (UNITS * 32)
#define PITCH (CHANNELS + 8)  // so that the pixels of a warp are in different banks
#include "kernels/gpu/portable.h"
#include "kernels/gpu/vector.h"
#include "kernels/gpu/local_copy.h"
#include "kernels/gpu/octets.h"
#include "kernels/gpu/matrix_units.h"
#include "kernels/gpu/partials.h"
#include "kernels/gpu/column_tile.h"

#define FILTER 3
#define TAPS 9
#define IN_W (TILE_W + FILTER - 1)
#define PARTS_16 CEIL_DIV(TILE_W, 16)
#define PIXELS (PARTS_16 * 16)
#define X_ROW ((PIXELS + FILTER - 1) * PITCH)
#define DY_ROW (PIXELS * PITCH)
#define PIECES_X (IN_W * CHANNELS / CHUNK)
#define EACH_X CEIL_DIV(PIECES_X, THREADS)
#define PIECES_DY (TILE_W * CHANNELS / CHUNK)
#define EACH_DY CEIL_DIV(PIECES_DY, THREADS)
#ifdef PLANES
#define WEIGHT_AT(k, tap, c) (((k)*REDUCED + (c)) * TAPS + (tap))
#else
#define WEIGHT_AT(k, tap, c) (((k)*TAPS + (tap)) * REDUCED + (c))
#endif

#ifdef PLANES

#define PAIRS PAIRS_OF(IN_W)
#define OCTETS (CHANNELS / 8)
#define EACH CEIL_DIV(2 * PAIRS * OCTETS, THREADS)  // pieces of x, then of dy

typedef struct {
  int of_dy, octet, pair;  // the pair as it counts from the strip's first even column on
} Piece;

INLINE Piece piece_at(int k) {
  const int i = THREAD(0) + k * THREADS;
  Piece p;
  p.of_dy = i >= PAIRS * OCTETS;
  p.octet = i / PAIRS - p.of_dy * OCTETS, p.pair = i % PAIRS;
  return p;
}

/// The thread's pieces of row `row` of a strip; x and dy are at the first of the block's channels.
INLINE void take_rows(GLOBAL const in_t* x, GLOBAL const in_t* dy, const GroupedShape* g, ColumnTile s, int row,
                      int count, u32 (*v)[8]) {
  UNROLL
  for (int k = 0; k < EACH; ++k) {
    const Piece p = piece_at(k);
    const int height = p.of_dy ? g->dst_h : g->src_h, breadth = p.of_dy ? g->dst_w : g->src_w;
    const int h = s.row0 + row - (p.of_dy ? 0 : g->pad_h), w0 = s.col0 - (p.of_dy ? 0 : g->pad_w);
    const int w = w0 - (w0 & 1) + p.pair * 2, c = p.octet * 8;
    const int inside = c < count && (u32)w < (u32)breadth && (p.of_dy ? row < s.most : (u32)h < (u32)height);
    const i64 at = (((i64)s.image * g->groups * REDUCED + c) * height + h) * breadth + w;
    take_octet((p.of_dy ? dy : x) + (inside ? at : 0), height * breadth, inside, v[k]);
  }
}

INLINE void put_rows(LOCAL in_t* x_row, LOCAL in_t* dy_row, const GroupedShape* g, u32 (*v)[8]) {
  UNROLL
  for (int k = 0; k < EACH; ++k) {
    const Piece p = piece_at(k);
    const int left = p.pair * 2 - (p.of_dy ? 0 : g->pad_w & 1), pixels = p.of_dy ? TILE_W : IN_W;
    LOCAL in_t* to = (p.of_dy ? dy_row : x_row) + left * PITCH + p.octet * 8;
    if (p.octet >= OCTETS) continue;
    if (left >= 0 && left < pixels) put_octet(to, v[k], 0);
    if (left + 1 < pixels) put_octet(to + PITCH, v[k], 1);
  }
}

#else

/// Places of the thread's pieces of the strip's rows.
INLINE void place_rows(const GroupedShape* g, ColumnTile s, int count, int* x_pieces, int* dy_pieces) {
  const int all = g->groups * REDUCED;
  place_pieces(x_pieces, EACH_X, IN_W, s.col0 - g->pad_w, g->src_w, count, all);
  place_pieces(dy_pieces, EACH_DY, TILE_W, s.col0, g->dst_w, count, all);
}

/// Row `row` of a strip, of x and of dy, which are at the first of the block's channels.
INLINE void copy_rows(LOCAL in_t* x_row, LOCAL in_t* dy_row, GLOBAL const in_t* x, GLOBAL const in_t* dy,
                      const GroupedShape* g, ColumnTile s, int row, const int* x_pieces, const int* dy_pieces) {
  const int from = s.row0 + row - g->pad_h, all = g->groups * REDUCED;
  copy_row(x_row, x + ((i64)s.image * g->src_h + from) * (g->src_w * all), (u32)from < (u32)g->src_h, x_pieces, EACH_X,
           PIECES_X);
  copy_row(dy_row, dy + ((i64)s.image * g->dst_h + s.row0 + row) * (g->dst_w * all), row < s.most, dy_pieces, EACH_DY,
           PIECES_DY);
  end_part_of_copies();
}

#endif

/// A row of x from `x` on by the rows of dy that the rows of the filter meet it in.
INLINE void multiply_row(LOCAL const in_t* x, const u32 (*g0)[2], const u32 (*g1)[2], const u32 (*g2)[2],
                         float (*acc)[2][4]) {
  UNROLL
  for (int s = 0; s < FILTER; ++s) {
    UNROLL
    for (int t = 0; t < PARTS_16; ++t) {
      u32 v[2];
      load_2_transposed(local_address(x + (t * 16 + s) * PITCH), v);
      const u32 first[4] = {g0[t][0], g1[t][0], g0[t][1], g1[t][1]}, second[4] = {g2[t][0], 0, g2[t][1], 0};
      multiply_16(first, v, acc[s][0]);
      multiply_16(second, v, acc[s][1]);
    }
  }
}

/// partials[block] as the weights lie.
KERNEL THREADS_PER_BLOCK(THREADS)
    grouped_matrix_weights(GLOBAL const in_t* RESTRICT x, GLOBAL const in_t* RESTRICT dy, GLOBAL sum_t* partials,
                           const GroupedShape g, const int column_tiles) {
  SHARED in_t x_ring[STAGES * X_ROW] __attribute__((aligned(16)));
  SHARED in_t dy_ring[STAGES * DY_ROW] __attribute__((aligned(16)));
  const int first = BLOCK(1) * GROUPS, groups = MIN(GROUPS, g.groups - first), count = groups * REDUCED;
  const int length = g.band + FILTER - 1, rows = CEIL_DIV(column_tiles - BLOCK(0), BLOCKS(0)) * length;
#ifdef PLANES
  GLOBAL const in_t* own_x = x + (i64)first * REDUCED * (g.src_h * g.src_w);
  GLOBAL const in_t* own_dy = dy + (i64)first * OUTPUTS * (g.dst_h * g.dst_w);
#else
  GLOBAL const in_t *own_x = x + first * REDUCED, *own_dy = dy + first * OUTPUTS;
#endif
  const int warp = THREAD(0) / 32, lane = THREAD(0) % 32, group = warp / ((OUTPUTS / 8) * (REDUCED / 8));
  const int k0 = warp / (REDUCED / 8) % (OUTPUTS / 8) * 8, c0 = warp % (REDUCED / 8) * 8;
  for (int i = THREAD(0); i < STAGES * X_ROW; i += THREADS) x_ring[i] = 0;  // what no row is copied to remains
  for (int i = THREAD(0); i < STAGES * DY_ROW; i += THREADS) dy_ring[i] = 0;
  BARRIER();
  ColumnTile column_tile = column_tile_at(BLOCK(0), g.dst_h, g.dst_w, g.band);
  int index = BLOCK(0), row = 0;  // of what is copied next
#ifdef PLANES
  u32 pieces[EACH][8];
  for (; row < STAGES - 1; ++row) {
    take_rows(own_x, own_dy, &g, column_tile, row, count, pieces);
    put_rows(x_ring + row * X_ROW, dy_ring + row * DY_ROW, &g, pieces);
  }
  take_rows(own_x, own_dy, &g, column_tile, row++, count, pieces);
#else
  int x_pieces[EACH_X], dy_pieces[EACH_DY];
  place_rows(&g, column_tile, count, x_pieces, dy_pieces);
  for (; row < STAGES - 1; ++row)
    copy_rows(x_ring + row * X_ROW, dy_ring + row * DY_ROW, own_x, own_dy, &g, column_tile, row, x_pieces, dy_pieces);
#endif
  u32 slopes[FILTER][PARTS_16][2];
  float acc[FILTER][2][4];
  UNROLL
  for (int r = 0; r < FILTER; ++r) {
    UNROLL
    for (int t = 0; t < PARTS_16; ++t) slopes[r][t][0] = slopes[r][t][1] = 0;
    UNROLL
    for (int u = 0; u < 4; ++u) acc[r][0][u] = acc[r][1][u] = 0;
  }
  LOCAL const in_t* x_at = x_ring + lane % 16 * PITCH + group * REDUCED + c0;
  LOCAL const in_t* dy_at = dy_ring + lane % 16 * PITCH + group * OUTPUTS + k0;
  int taken = 0, given = STAGES - 1;  // rows of the rings
  NO_UNROLL
  for (int i0 = 0; i0 < rows; i0 += FILTER) {
    UNROLL
    for (int phase = 0; phase < FILTER; ++phase) {
#ifdef PLANES
      BARRIER();
      if (i0 + phase >= rows) continue;
      put_rows(x_ring + given * X_ROW, dy_ring + given * DY_ROW, &g, pieces);
      if (row == length) row = 0, index += BLOCKS(0), column_tile = column_tile_at(index, g.dst_h, g.dst_w, g.band);
      if (index < column_tiles) take_rows(own_x, own_dy, &g, column_tile, row++, count, pieces);
#else
      WAIT_FOR_COPIES_BUT(STAGES - 2);
      if (i0 + phase >= rows) continue;
      if (row == length) {
        row = 0, index += BLOCKS(0), column_tile = column_tile_at(index, g.dst_h, g.dst_w, g.band);
        place_rows(&g, column_tile, count, x_pieces, dy_pieces);
      }
      if (index < column_tiles)
        copy_rows(x_ring + given * X_ROW, dy_ring + given * DY_ROW, own_x, own_dy, &g, column_tile, row++, x_pieces,
                  dy_pieces);
      else
        end_part_of_copies();
#endif
      UNROLL
      for (int t = 0; t < PARTS_16; ++t)
        load_2_transposed(local_address(dy_at + taken * DY_ROW + t * 16 * PITCH), slopes[phase][t]);
      multiply_row(x_at + taken * X_ROW, slopes[phase], slopes[(phase + 2) % FILTER], slopes[(phase + 1) % FILTER],
                   acc);
      taken = taken == STAGES - 1 ? 0 : taken + 1, given = given == STAGES - 1 ? 0 : given + 1;
    }
  }
  if (group >= groups) return;
  GLOBAL sum_t* results = (GLOBAL sum_t*)align16(partials) +
                          ((i64)BLOCK(0) * g.groups * OUTPUTS + (first + group) * OUTPUTS + k0) * TAPS * REDUCED +
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
