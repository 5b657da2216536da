// Depthwise convolution with a few taps along innermost columns, one row of taps, stride and dilation 1, any other
// strides; three directions. A unit is RESULTS neighbouring results, or elements of dy. A thread loads the pieces of 4
// bytes that UNITS units need, whatever the alignment of lines, before it uses them; units at the ends of a line read
// element by element.
// Options: IN, OUT, DIRECTION (0, 1, 2; src and filter are x and w; dy and the rotated w; x and dy), FILTER_W, UNITS;
// forward and backward data: HAS_BIAS, HAS_SCALE, MODE.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"
#include "kernels/gpu/portable/partials.h"

#define THREADS 256
#define RESULTS VECTOR  // of a unit
#define WINDOW (RESULTS + FILTER_W - 1)
#if IN_KIND == KIND_fp32
#define PER_PIECE 1
#define PIECES_OF(elements) (elements)
#else
#define PER_PIECE 2
#define PIECES_OF(elements) ((elements) / 2 + 1)
#endif
#define PIECES PIECES_OF(WINDOW)

/// `count` pieces of a line, the first of which has a column: piece j of a line are its elements PER_PIECE * j - odd
/// and on.
typedef struct {
  GLOBAL const in_t* line;
  int shift, inside;  // elements before the column; whether the line has all pieces as a whole
} Pieces;

/// Also loads them, or the first ones of the line if some are not inside; lines have that many.
INLINE Pieces pieces_at(GLOBAL const in_t* line, int col, int width, int count, u32* pieces) {
  Pieces s;
  const int odd = (int)((u64)line / sizeof(in_t) % PER_PIECE), element = col + odd, first = element >> (PER_PIECE - 1);
  s.line = line;
  s.shift = element & (PER_PIECE - 1);
  s.inside = first >= odd && (first + count) * PER_PIECE <= width + odd;
  GLOBAL const u32* from = (GLOBAL const u32*)(line - odd) + (s.inside ? first : odd);
  UNROLL
  for (int j = 0; j < PIECES; ++j)
    if (j < count) pieces[j] = from[j];
  return s;
}

/// Elements from a column on; those outside of the line are zero.
INLINE void load_elements(GLOBAL const in_t* line, int col, int width, int count, sum_t* v) {
  UNROLL
  for (int j = 0; j < WINDOW; ++j)
    if (j < count) v[j] = (u32)(col + j) < (u32)width ? LOAD(IN, line, col + j) : 0;
}

/// The same from pieces that are inside.
INLINE void convert_pieces(Pieces s, const u32* pieces, int count, sum_t* v) {
#if PER_PIECE == 1
  UNROLL
  for (int j = 0; j < WINDOW; ++j)
    if (j < count) v[j] = FLOAT_OF_BITS(pieces[j]);
#else
  const int shift = s.shift * 16;
  UNROLL
  for (int j = 0; j < WINDOW; j += 2) {
    if (j >= count) continue;
    const u64 next = j + 1 < count ? pieces[j / 2 + 1] : 0;
    const u32 pair = (u32)((next << 32 | pieces[j / 2]) >> shift);
    v[j] = NARROW(pair);
    if (j + 1 < count) v[j + 1] = NARROW(pair >> 16);
  }
#endif
}

INLINE GLOBAL const in_t* src_line(GLOBAL const in_t* src, DepthwiseWindowShape d, int image, int channel, int row) {
  return src + image * d.src_image + ((i64)channel * d.src_channel + (i64)row * d.src_row);
}

INLINE i64 dst_line(DepthwiseWindowShape d, int image, int channel, int row) {
  return image * d.dst_image + ((i64)channel * d.dst_channel + (i64)row * d.dst_row);
}

#if DIRECTION != 2
#include "kernels/gpu/portable/epilogue.h"

/// Units begin where the address of dst is a multiple of their bytes, so that their stores are vectors.
typedef struct {
  Pieces src;
  i64 dst;  // the line
  int channel, col;
} Unit;

KERNEL THREADS_PER_BLOCK(THREADS)
    depthwise_few_taps_planes(GLOBAL const in_t* RESTRICT src, GLOBAL const in_t* RESTRICT w, GLOBAL out_t* dst,
                              CHANNEL_PARAMETERS, const DepthwiseWindowShape d, const int units, const Divider by_line,
                              const Divider by_rows, const Divider by_channels, const Scalars scalars) {
  Unit u[UNITS];
  u32 pieces[UNITS][PIECES];
  const int first = BLOCK(0) * (THREADS * UNITS) + THREAD(0);
  UNROLL
  for (int k = 0; k < UNITS; ++k) {
    const int i = MIN(first + k * THREADS, units - 1), line = divide(i, by_line), plane = divide(line, by_rows);
    const int image = divide(plane, by_channels), channel = plane - image * d.channels, row = line - plane * d.dst_h;
    u[k].channel = channel;
    u[k].dst = dst_line(d, image, channel, row);
    u[k].col = (i - line * (int)by_line.divisor) * RESULTS - (int)((u64)(dst + u[k].dst) / sizeof(out_t) % RESULTS);
    u[k].src = pieces_at(src_line(src, d, image, channel, row), u[k].col - d.pad_w, d.src_w, PIECES, pieces[k]);
  }
  sum_t taps[FILTER_W];
  UNROLL
  for (int k = 0; k < UNITS; ++k) {
    if (first + k * THREADS >= units) return;
    const int channel = u[k].channel, col = u[k].col;
    if (k == 0 || channel != u[(k + UNITS - 1) % UNITS].channel) {
      UNROLL
      for (int s = 0; s < FILTER_W; ++s)
        taps[s] = LOAD(IN, w, (i64)channel * FILTER_W + (DIRECTION == 1 ? FILTER_W - 1 - s : s));
    }
    const ChannelTerms b = CHANNEL_TERMS(channel);
    GLOBAL out_t* to = dst + u[k].dst + col;
    sum_t v[WINDOW], acc[RESULTS];
    if (u[k].src.inside)
      convert_pieces(u[k].src, pieces[k], WINDOW, v);
    else
      load_elements(u[k].src.line, col - d.pad_w, d.src_w, WINDOW, v);
    UNROLL
    for (int q = 0; q < RESULTS; ++q) {
      acc[q] = 0;
      UNROLL
      for (int s = 0; s < FILTER_W; ++s) acc[q] = MULTIPLY_ADD(v[q + s], taps[s], acc[q]);
    }
    if (col >= 0 && col + RESULTS <= d.dst_w) {
      finish(acc, RESULTS, to, b, scalars);
      store_vector(to, acc);
    } else {
      UNROLL
      for (int q = 0; q < RESULTS; ++q)
        if ((u32)(col + q) < (u32)d.dst_w) STORE(OUT, to, q, finished(acc[q], to + q, b, scalars));
    }
  }
}

#else

#define DY_PIECES PIECES_OF(RESULTS)

INLINE void add_products(const sum_t* v, const sum_t* g, int count, sum_t* acc) {
  UNROLL
  for (int q = 0; q < RESULTS; ++q) {
    if (q >= count) continue;
    UNROLL
    for (int s = 0; s < FILTER_W; ++s) acc[s] = MULTIPLY_ADD(v[q + s], g[q], acc[s]);
  }
}

/// Block (c * parts + part) sums every parts-th group of THREADS * UNITS units of dy of channel c. Units begin at
/// multiples of RESULTS columns, so that the order of sums does not depend on addresses. partials[part][channel][tap].
KERNEL THREADS_PER_BLOCK(THREADS)
    depthwise_few_taps_planes_weights(GLOBAL const in_t* RESTRICT x, GLOBAL const in_t* RESTRICT dy,
                                      GLOBAL sum_t* partials, const DepthwiseWindowShape d, const int parts,
                                      const int units, const Divider by_line, const Divider by_rows) {
  SHARED sum_t sums[FILTER_W * THREADS];
  const int channel = BLOCK(0) / parts, part = BLOCK(0) - channel * parts;
  sum_t acc[FILTER_W];
  UNROLL
  for (int s = 0; s < FILTER_W; ++s) acc[s] = 0;
  for (int first = part * (THREADS * UNITS) + THREAD(0); first < units; first += parts * (THREADS * UNITS)) {
    Pieces of_x[UNITS], of_dy[UNITS];
    u32 pieces[UNITS][PIECES], dy_pieces[UNITS][DY_PIECES];
    int cols[UNITS];
    UNROLL
    for (int k = 0; k < UNITS; ++k) {
      const int i = MIN(first + k * THREADS, units - 1), line = divide(i, by_line), image = divide(line, by_rows);
      const int row = line - image * d.dst_h;
      cols[k] = (i - line * (int)by_line.divisor) * RESULTS;
      of_x[k] = pieces_at(src_line(x, d, image, channel, row), cols[k] - d.pad_w, d.src_w, PIECES, pieces[k]);
      of_dy[k] = pieces_at(dy + dst_line(d, image, channel, row), cols[k], d.dst_w, DY_PIECES, dy_pieces[k]);
    }
    UNROLL
    for (int k = 0; k < UNITS; ++k) {
      if (first + k * THREADS >= units) break;
      sum_t v[WINDOW], g[RESULTS];
      if (of_x[k].inside && of_dy[k].inside) {
        convert_pieces(of_x[k], pieces[k], WINDOW, v);
        convert_pieces(of_dy[k], dy_pieces[k], RESULTS, g);
        add_products(v, g, RESULTS, acc);
      } else {
        load_elements(of_x[k].line, cols[k] - d.pad_w, d.src_w, WINDOW, v);
        load_elements(of_dy[k].line, cols[k], d.dst_w, RESULTS, g);
        add_products(v, g, MIN(d.dst_w - cols[k], RESULTS), acc);
      }
    }
  }
  UNROLL
  for (int s = 0; s < FILTER_W; ++s) sums[THREAD(0) * FILTER_W + s] = acc[s];
  add_slots(sums, FILTER_W, THREADS);
  GLOBAL sum_t* results = (GLOBAL sum_t*)align16(partials);
  if (THREAD(0) < FILTER_W) results[((i64)part * d.channels + channel) * FILTER_W + THREAD(0)] = sums[THREAD(0)];
}
#endif
