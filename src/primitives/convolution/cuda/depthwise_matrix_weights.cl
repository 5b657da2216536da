// The gradient of the weights of depthwise_matrix.cl: sixteen pixels of a row of dy are multiplied with those of x
// at two shifts for eight channels, and two taps are the diagonals of the sums. A block walks down strips of TILE_W
// columns and d.band rows, one behind the other, with the next rows of x and dy on their way to rings in local
// memory, and writes what all its rows give; add_partials sums that up. A warp keeps FILTER rows of dy and all taps.
// Told by -D: IN, OUT, FILTER (square, odd), CHANNELS (of the block), TILE_W, IMAGES, PER_WARP, STAGES (rows of a
// ring, at most one more than a strip meets), RESIDENT (blocks of a multiprocessor).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/depthwise_matrix.h"
#include "kernels/gpu/partials.h"

#define SHIFTS CEIL_DIV(FILTER, 2)  // two by two
#define X_ROW ((WIDTH + IMAGES * (FILTER - 1) + 1) * PITCH * BYTES)
#define DY_ROW (WIDTH * PITCH * BYTES)
#define PIECES_X (IMAGES * IN_W * GROUPS)
#define EACH_X CEIL_DIV(PIECES_X, THREADS)
#define PIECES_DY (IMAGES * TILE_W * GROUPS)
#define EACH_DY CEIL_DIV(PIECES_DY, THREADS)

/// Rows of x that a strip meets, at least one; all behind these are outside.
INLINE int steps_of(const DepthwiseShape* d, ColumnTile s) {
  return MAX(1, MIN(s.most + FILTER - 1, d->src_h + d->pad_h - s.row0));
}

/// The rows of x and dy that are copied next, of a strip that meets `left` and `dy_left` more.
typedef struct {
  GLOBAL const in_t *x, *dy;
  int row, left, dy_left;
  int x_pieces[EACH_X], dy_pieces[EACH_DY];
} Source;

/// All but the pieces. x and dy are at the first of the block's channels. Behind the last strip nothing is copied.
INLINE void begin(Source* c, ColumnTile s, int there, GLOBAL const in_t* x, GLOBAL const in_t* dy,
                  const DepthwiseShape* d) {
  const int row = s.row0 - d->pad_h;
  c->row = there ? row : d->src_h, c->left = steps_of(d, s), c->dy_left = there ? s.most : 0;
  c->x = x + ((i64)s.image * d->src_h + row) * (d->src_w * d->channels);
  c->dy = dy + ((i64)s.image * d->dst_h + s.row0) * (d->dst_w * d->channels);
}

INLINE void place_source(Source* c, ColumnTile s, int count, const DepthwiseShape* d) {
  const int images = d->images - s.image;
  place_row(c->x_pieces, EACH_X, IN_W, s.col0 - d->pad_w, images, d->src_h, d->src_w, count, d->channels);
  place_row(c->dy_pieces, EACH_DY, TILE_W, s.col0, images, d->dst_h, d->dst_w, count, d->channels);
}

INLINE void copy_next(Source* c, u32 x_row, u32 dy_row, const DepthwiseShape* d) {
  if ((u32)c->row < (u32)d->src_h) copy_pieces(x_row, c->x, c->x_pieces, EACH_X, PIECES_X);
  if (c->dy_left > 0) copy_pieces(dy_row, c->dy, c->dy_pieces, EACH_DY, PIECES_DY);
  c->x += d->src_w * d->channels, c->dy += d->dst_w * d->channels, ++c->row, --c->left, --c->dy_left;
  end_part_of_copies();
}

/// A row of x by the rows of dy that the rows of the filter meet it in.
INLINE void multiply_row(u32 x, const u32 (*slopes)[PER_WARP][2], const int phase, float (*acc)[SHIFTS][4]) {
  UNROLL
  for (int t = 0; t < PER_WARP; ++t) {
    UNROLL
    for (int s = 0; s < SHIFTS; ++s) {
      u32 v[4];
      load_4_transposed(x + (t * IN_STEP + s * 2) * PITCH * BYTES, v);
      UNROLL
      for (int r = 0; r < FILTER; ++r) multiply_16(v, slopes[(phase + FILTER - r) % FILTER][t], acc[r][s]);
    }
  }
}

/// partials[block][channel][tap].
KERNEL THREADS_PER_BLOCK_OF(THREADS, RESIDENT)
    depthwise_matrix_weights(GLOBAL const in_t* RESTRICT x, GLOBAL const in_t* RESTRICT dy, GLOBAL sum_t* partials,
                             const DepthwiseShape d, const int column_tiles) {
  SHARED in_t x_ring[MAX(STAGES * X_ROW, CHANNELS * TAPS * 4) / BYTES] __attribute__((aligned(16)));
  SHARED in_t dy_ring[STAGES * DY_ROW / BYTES] __attribute__((aligned(16)));
  LOCAL sum_t* sums = (LOCAL sum_t*)x_ring;  // in the end
  const int c0 = BLOCK(1) * CHANNELS, count = MIN(CHANNELS, d.channels - c0);
  const int warp = THREAD(0) / 32, lane = THREAD(0) % 32, c = warp % GROUPS * 8, part = warp / GROUPS;
  // What no row is copied to remains zeros.
  for (int i = THREAD(0); i < STAGES * X_ROW / 4; i += THREADS) ((LOCAL u32*)x_ring)[i] = 0;
  for (int i = THREAD(0); i < STAGES * DY_ROW / 4; i += THREADS) ((LOCAL u32*)dy_ring)[i] = 0;
  BARRIER();
  const u32 x_ring_at = kept_address(x_ring), dy_ring_at = kept_address(dy_ring);
  const u32 x_copy_at = piece_address(x_ring_at), dy_copy_at = piece_address(dy_ring_at);
  const int pixel = part * PER_WARP * 16;
  const u32 x_at = x_ring_at + ((pixel + lane % 8 + lane / 8 % 2 + lane / 16 * 8) * PITCH + c) * BYTES;
  const u32 dy_at = dy_ring_at + ((pixel + lane % 16) * PITCH + c) * BYTES;
  ColumnTile s = images_column_tile(BLOCK(0), &d);
  Source next;
  begin(&next, s, 1, x + c0, dy + c0, &d);
  place_source(&next, s, count, &d);
  for (int i = 0; i < STAGES - 1; ++i) copy_next(&next, x_copy_at + i * X_ROW, dy_copy_at + i * DY_ROW, &d);
  float acc[FILTER][SHIFTS][4];
  UNROLL
  for (int r = 0; r < FILTER; ++r) {
    UNROLL
    for (int s = 0; s < SHIFTS; ++s) {
      UNROLL
      for (int u = 0; u < 4; ++u) acc[r][s][u] = 0;
    }
  }
  int taken = 0, given = STAGES - 1;  // rows of the rings
  NO_UNROLL
  for (int index = BLOCK(0); index < column_tiles; index += BLOCKS(0)) {
    const int most = s.most, steps = steps_of(&d, s), row0 = s.row0 - d.pad_h;
    const ColumnTile after = images_column_tile(index + BLOCKS(0), &d);
    Source other = next;
    begin(&other, after, index + BLOCKS(0) < column_tiles, x + c0, dy + c0, &d);
    if (!alike(&d, s, after)) place_source(&other, after, count, &d);
    s = after;
    u32 slopes[FILTER][PER_WARP][2];
    UNROLL
    for (int r = 0; r < FILTER; ++r) {
      UNROLL
      for (int t = 0; t < PER_WARP; ++t) slopes[r][t][0] = slopes[r][t][1] = 0;
    }
    NO_UNROLL
    for (int i0 = 0; i0 < steps; i0 += FILTER) {
      UNROLL
      for (int phase = 0; phase < FILTER; ++phase) {
        const int i = i0 + phase;
        if (i >= steps) continue;
        WAIT_FOR_COPIES_BUT(STAGES - 2);
        if (next.left == 0) next = other;
        copy_next(&next, x_copy_at + given * X_ROW, dy_copy_at + given * DY_ROW, &d);
        UNROLL
        for (int t = 0; t < PER_WARP; ++t) {
          slopes[phase][t][0] = slopes[phase][t][1] = 0;
          if (i < most) load_2_transposed(dy_at + taken * DY_ROW + t * 16 * PITCH * BYTES, slopes[phase][t]);
        }
        if ((u32)(row0 + i) < (u32)d.src_h) multiply_row(x_at + taken * X_ROW, slopes, phase, acc);
        given = taken, taken = taken == STAGES - 1 ? 0 : taken + 1;
      }
    }
  }
  // The lanes with elements of the diagonals; one part of the rows after another.
  const int own = lane / 8 == lane % 4, odd = lane / 4 % 2;
  NO_UNROLL
  for (int k = 0; k < PARTS; ++k) {
    BARRIER();
    if (k != part || !own) continue;
    LOCAL sum_t* to = sums + (c + lane / 4) * TAPS;
    UNROLL
    for (int r = 0; r < FILTER; ++r) {
      UNROLL
      for (int s = 0; s < FILTER; ++s) {
        const float* v = acc[r][s / 2] + s % 2 * 2;
        to[r * FILTER + s] = (k > 0 ? to[r * FILTER + s] : 0) + (odd ? v[1] : v[0]);
      }
    }
  }
  BARRIER();
  GLOBAL sum_t* results = (GLOBAL sum_t*)align16(partials) + ((i64)BLOCK(0) * d.channels + c0) * TAPS;
  for (int i = THREAD(0); i < count * TAPS; i += THREADS) results[i] = sums[i];
}
