// Depthwise 3x3 convolution with channels innermost and stride 1, forward and backward data: a block walks down a strip
// of TILE_W columns and d.band rows, with the next rows of src on their way to a ring in local memory. A thread owns
// four channels of COLS columns; what it reads goes into the three rows of dst that it belongs to. Told by -D: IN, OUT,
// DIRECTION (0, 1), CHANNELS (of the block), TILE_W, COLS, STAGES (rows of the ring).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable.h"
#include "kernels/gpu/vector.h"
#include "kernels/gpu/local_copy.h"

#define FILTER 3
#define TAPS 9
#define IN_W (TILE_W + FILTER - 1)
#define WINDOW (COLS + FILTER - 1)
#define PIECES (IN_W * CHANNELS / CHUNK)
#define EACH CEIL_DIV(PIECES, THREADS)

/// A row of src as the first row of the filter meets it in `first`, which begins there, and the others.
INLINE void multiply_row(LOCAL const in_t* from, const sum_t (*taps)[4], sum_t (*first)[4], sum_t (*second)[4],
                         sum_t (*third)[4]) {
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
          first[q][u] = s == 0 ? v[u] * taps[0][u] : MULTIPLY_ADD(v[u], taps[s][u], first[q][u]);
          second[q][u] = MULTIPLY_ADD(v[u], taps[FILTER + s][u], second[q][u]);
          third[q][u] = MULTIPLY_ADD(v[u], taps[2 * FILTER + s][u], third[q][u]);
        }
      }
    }
  }
}

KERNEL THREADS_PER_BLOCK(THREADS)
    depthwise_rows(GLOBAL const in_t* RESTRICT src, GLOBAL const in_t* RESTRICT w, GLOBAL out_t* dst,
                   const DepthwiseShape d, const float alpha, const float beta) {
  SHARED in_t ring[STAGES * IN_W * CHANNELS] __attribute__((aligned(16)));
  const int chunks = CEIL_DIV(d.channels, CHANNELS), column_tiles = CEIL_DIV(d.dst_w, TILE_W);
  const int bands = CEIL_DIV(d.dst_h, d.band), at = BLOCK(0) / chunks, image = at / (bands * column_tiles);
  const int c0 = BLOCK(0) % chunks * CHANNELS, count = MIN(CHANNELS, d.channels - c0);
  const int row0 = at / column_tiles % bands * d.band, col0 = at % column_tiles * TILE_W;
  const int rows = MIN(d.band, d.dst_h - row0) + FILTER - 1, pitch = d.src_w * d.channels;
  GLOBAL const in_t* plane = src + (i64)image * d.src_h * pitch + c0;
  int pieces[EACH], next = row0 - d.pad_h;
  place_pieces(pieces, EACH, IN_W, col0 - d.pad_w, d.src_w, count, d.channels);
  for (int i = 0; i < STAGES - 1; ++i, ++next) {
    copy_row(ring + i * (IN_W * CHANNELS), plane + (i64)next * pitch, (u32)next < (u32)d.src_h, pieces, EACH, PIECES);
    end_part_of_copies();
  }
  const int c = THREAD(0) % LANES * 4, col = THREAD(0) / LANES * COLS;
  sum_t taps[TAPS][4], acc[FILTER][COLS][4];
  UNROLL
  for (int t = 0; t < TAPS; ++t) {  // four of the channels' 36 at a time
    sum_t v[4] = {0, 0, 0, 0};
    if (c < count) load4(w + (c0 + c) * TAPS + t * 4, v);
    UNROLL
    for (int u = 0; u < 4; ++u) {
      const int i = t * 4 + u, tap = i % TAPS;
      taps[DIRECTION == 1 ? TAPS - 1 - tap : tap][i / TAPS] = alpha * v[u];
    }
  }
  UNROLL
  for (int r = 0; r < FILTER; ++r) {
    UNROLL
    for (int q = 0; q < COLS; ++q) {
      UNROLL
      for (int u = 0; u < 4; ++u) acc[r][q][u] = 0;
    }
  }
  const int inside = c < count ? d.dst_w - col0 - col : 0, down = d.dst_w * d.channels;
  GLOBAL out_t* to = dst + (((i64)image * d.dst_h + row0) * d.dst_w + col0 + col) * d.channels + c0 + c;
  int taken = 0, given = STAGES - 1;  // rows of the ring
  NO_UNROLL
  for (int i0 = 0; i0 < rows; i0 += FILTER) {
    UNROLL
    for (int phase = 0; phase < FILTER; ++phase) {
      const int i = i0 + phase;
      WAIT_FOR_COPIES_BUT(STAGES - 2);
      if (i >= rows) continue;
      copy_row(ring + given * (IN_W * CHANNELS), plane + (i64)next * pitch,
               (u32)next < (u32)d.src_h && i + STAGES - 1 < rows, pieces, EACH, PIECES);
      end_part_of_copies();
      sum_t(*done)[4] = acc[(phase + 1) % FILTER];
      multiply_row(ring + (taken * IN_W + col) * CHANNELS + c, taps, acc[phase], acc[(phase + 2) % FILTER], done);
      if (i >= FILTER - 1) {
        UNROLL
        for (int q = 0; q < COLS; ++q)
          if (q < inside) store4_scaled(to + q * d.channels, done[q], 1, beta);
        to += down;
      }
      ++next, taken = taken == STAGES - 1 ? 0 : taken + 1, given = given == STAGES - 1 ? 0 : given + 1;
    }
  }
}
