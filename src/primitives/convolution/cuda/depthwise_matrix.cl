// Depthwise convolution with channels innermost on NVIDIA's matrix units, 16-bit floats, stride 1, forward and
// backward data: sixteen pixels of a row by eight channels are multiplied with two diagonal matrices at a time, the
// taps of these channels, which stay in registers. A block walks down strips of TILE_W columns and d.band rows, one
// behind the other, with the next rows on their way to a ring in local memory; a row of src meets all rows of the
// filter at once. Told by -D: IN, OUT (the same), DIRECTION (0, 1), FILTER (square, odd), CHANNELS (of the block),
// TILE_W, IMAGES, PER_WARP, STAGES (rows of the ring, at most one more than a strip meets), RESIDENT (blocks of a
// multiprocessor).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/depthwise_matrix.h"

#define ROW ((WIDTH + IMAGES * (FILTER - 1)) * PITCH * BYTES)
#define PIECES (IMAGES * IN_W * GROUPS)
#define EACH CEIL_DIV(PIECES, THREADS)
#define OUT_ROW (WIDTH * PITCH * BYTES)
#define RESULTS (STAGES * ROW)  // their two rows are behind the ring
#define OUT_PIECES (IMAGES * TILE_W * GROUPS)
#define OUT_EACH CEIL_DIV(OUT_PIECES, THREADS)

/// Rows of the filter that the first output row of a strip does not need.
INLINE int rows_above(const DepthwiseShape* d, ColumnTile s) { return MIN(MAX(d->pad_h - s.row0, 0), FILTER - 1); }

/// The row of src that is copied next, of a strip that meets `left` more.
typedef struct {
  GLOBAL const in_t* from;
  int row, left;
  int pieces[EACH];
} Source;

/// All but the pieces. `src` is at the first of the block's channels. Behind the last strip there is nothing to copy.
INLINE void begin(Source* c, ColumnTile s, int there, GLOBAL const in_t* src, const DepthwiseShape* d) {
  const int above = rows_above(d, s);
  c->row = there ? s.row0 + above - d->pad_h : d->src_h, c->left = s.most + FILTER - 1 - above;
  c->from = src + ((i64)s.image * d->src_h + c->row) * (d->src_w * d->channels);
}

INLINE void place_source(Source* c, ColumnTile s, int count, const DepthwiseShape* d) {
  place_row(c->pieces, EACH, IN_W, s.col0 - d->pad_w, d->images - s.image, d->src_h, d->src_w, count, d->channels);
}

INLINE void place_results(int* pieces, ColumnTile s, int count, const DepthwiseShape* d) {
  place_row(pieces, OUT_EACH, TILE_W, s.col0, d->images - s.image, d->dst_h, d->dst_w, count, d->channels);
}

INLINE void copy_next(Source* c, u32 to, const DepthwiseShape* d) {
  if ((u32)c->row < (u32)d->src_h) copy_pieces(to, c->from, c->pieces, EACH, PIECES);
  c->from += d->src_w * d->channels, ++c->row, --c->left;
  end_part_of_copies();
}

/// The channels' taps on the diagonals of FILTER * FILTER matrices of 8 x 8: a lane has two rows of a column.
INLINE void load_taps(GLOBAL const in_t* w, int lane, int inside, u32* taps) {
  const int c = lane / 4, mine = inside && c / 2 == lane % 4;
  UNROLL
  for (int t = 0; t < TAPS; ++t)
    taps[t] = mine ? (u32)w[c * TAPS + (DIRECTION == 1 ? TAPS - 1 - t : t)] << (c % 2 * 16) : 0;
}

/// Volatile, or it is done ahead of branches that do without.
INLINE void clear(float (*v)[4]) {
  UNROLL
  for (int t = 0; t < PER_WARP; ++t) {
    UNROLL
    for (int u = 0; u < 4; ++u) asm volatile("mov.f32 %0, 0f00000000;" : "=f"(v[t][u]));
  }
}

/// What a row gives to FILTER rows of results, to the one of `phase` first.
INLINE void multiply_row(u32 from, const u32* taps, const int phase, float (*acc)[PER_WARP][4]) {
  const float zeros[4] = {0, 0, 0, 0};
  UNROLL
  for (int t = 0; t < PER_WARP; ++t) {
    UNROLL
    for (int s = 0; s < FILTER; s += 2) {
      u32 v[4];
      if (s + 1 < FILTER)
        load_4_blocks(from + (t * IN_STEP + s) * PITCH * BYTES, v);
      else
        load_2_blocks(from + (t * IN_STEP + s) * PITCH * BYTES, v);
      UNROLL
      for (int r = 0; r < FILTER; ++r) {
        float* sums = acc[(phase + FILTER - r) % FILTER][t];
        const u32* b = taps + r * FILTER + s;
        if (s + 1 < FILTER)
          multiply_16_to(v, b, s == 0 && r == 0 ? zeros : sums, sums);
        else
          multiply_8(v, b[0], sums);
      }
    }
  }
}

/// v = alpha * v + beta * what there is from the lane's first pixel on. Of its pixels in a row there are `most`, in
/// `images`.
INLINE void scale(GLOBAL const out_t* old, const DepthwiseShape* d, int most, int images, float alpha, float beta,
                  float (*v)[4]) {
  UNROLL
  for (int t = 0; t < PER_WARP; ++t) {
    UNROLL
    for (int u = 0; u < 4; ++u) {
      const int image = IMAGES == 1 ? 0 : t, pixel = (IMAGES == 1 ? t * 16 : 0) + u / 2 * 8;
      const i64 at = ((i64)image * d->dst_h * d->dst_w + pixel) * d->channels;
      v[t][u] *= alpha;
      if (beta != 0 && pixel < most && image < images) v[t][u] = FMA(beta, LOAD(OUT, old + at, u % 2), v[t][u]);
    }
  }
}

INLINE void put_results(u32 to, const float (*v)[4]) {
  UNROLL
  for (int t = 0; t < PER_WARP; ++t) {
    UNROLL
    for (int h = 0; h < 2; ++h)
      asm volatile("st.shared.b32 [%0], %1;" ::"r"(to + (t * 16 + h * 8) * PITCH * BYTES),
                   "r"(PAIR(v[t][h * 2], v[t][h * 2 + 1]))
                   : "memory");
  }
}

INLINE void store_results(GLOBAL out_t* to, u32 from, const int* pieces) {
  UNROLL
  for (int k = 0; k < OUT_EACH; ++k)
    if (pieces[k] >= 0 && ((k + 1) * THREADS <= OUT_PIECES || THREAD(0) + k * THREADS < OUT_PIECES)) {
      u32x4 v;
      asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                   : "r"(from + k * PIECE_STEP)
                   : "memory");
#ifdef UNALIGNED
      const u32 packed[4] = {v.x, v.y, v.z, v.w};
      UNROLL
      for (int u = 0; u < 8; ++u) to[pieces[k] + u] = (out_t)(packed[u / 2] >> (u % 2 * 16));
#else
      *(GLOBAL u32x4*)(to + pieces[k]) = v;
#endif
    }
}

KERNEL THREADS_PER_BLOCK_OF(THREADS, RESIDENT)
    depthwise_matrix(GLOBAL const in_t* RESTRICT src, GLOBAL const in_t* RESTRICT w, GLOBAL out_t* dst,
                     const DepthwiseShape d, const int column_tiles, const float alpha, const float beta) {
  SHARED in_t ring[(STAGES * ROW + 2 * OUT_ROW) / BYTES] __attribute__((aligned(16)));  // and two rows of results
  const int c0 = BLOCK(1) * CHANNELS, count = MIN(CHANNELS, d.channels - c0), down = d.dst_w * d.channels;
  const int warp = THREAD(0) / 32, lane = THREAD(0) % 32, c = warp % GROUPS * 8, col = warp / GROUPS * (16 * PER_WARP);
  const u32 ring_at = kept_address(ring), piece_at = piece_address(ring_at);
  const u32 from = ring_at + ((col + lane % 16 + lane / 16) * PITCH + c) * BYTES;
  const u32 put_at = ring_at + ((col + lane / 4) * PITCH + c + lane % 4 * 2) * BYTES;
  ColumnTile s = images_column_tile(BLOCK(0), &d);
  Source next;
  int pieces[OUT_EACH];
  begin(&next, s, 1, src + c0, &d);
  place_source(&next, s, count, &d);
  place_results(pieces, s, count, &d);
  for (int i = 0; i < STAGES - 1; ++i) copy_next(&next, piece_at + i * ROW, &d);
  u32 taps[TAPS];
  load_taps(w + (i64)(c0 + c) * TAPS, lane, c < count, taps);
  int taken = 0, given = (STAGES - 1) * ROW, half = RESULTS;  // where rows are
  NO_UNROLL
  for (int index = BLOCK(0); index < column_tiles; index += BLOCKS(0)) {
    const int above = rows_above(&d, s);
    const ColumnTile after = images_column_tile(index + BLOCKS(0), &d);
    Source other = next;
    begin(&other, after, index + BLOCKS(0) < column_tiles, src + c0, &d);
    if (!alike(&d, s, after)) place_source(&other, after, count, &d);
    GLOBAL out_t* to = dst + ((i64)s.image * d.dst_h + s.row0) * down + c0;
    float acc[FILTER][PER_WARP][4];
    UNROLL
    for (int r = 0; r < FILTER; ++r) clear(acc[r]);
    int left = s.most + FILTER - 1 - above, row = s.row0 + above - d.pad_h;
    int out = above - FILTER;  // the row of results that was finished last
    NO_UNROLL
    while (left > 0) {
      UNROLL
      for (int phase = 0; phase < FILTER; ++phase) {
        const int ready = (phase + 1) % FILTER;
        if (left-- <= 0) continue;
        WAIT_FOR_COPIES_BUT(STAGES - 2);
        if (next.left == 0) next = other;
        copy_next(&next, piece_at + given, &d);
        if (out >= 0) store_results(to, piece_at + half, pieces), to += down;
        if ((u32)row++ < (u32)d.src_h)
          multiply_row(from + taken, taps, phase, acc);
        else
          clear(acc[phase]);
        if (++out >= 0) {
          if (alpha != 1 || beta != 0) {
            const int first = col + lane / 4, at = s.col0 + first;
            const int most = c < count ? MIN(TILE_W - first, d.dst_w - at) : 0;
            scale(to + (i64)at * d.channels + c + lane % 4 * 2, &d, most, d.images - s.image, alpha, beta, acc[ready]);
          }
          half = 2 * RESULTS + OUT_ROW - half;
          put_results(put_at + half, acc[ready]);
        }
        given = taken, taken = taken == (STAGES - 1) * ROW ? 0 : taken + ROW;
      }
    }
    BARRIER();
    store_results(to, piece_at + half, pieces);
    if (!alike(&d, s, after)) place_results(pieces, after, count, &d);
    s = after;
  }
}
