// Depthwise convolution with 2 to 32 taps along innermost columns, one row of taps, stride and dilation 1, any other
// strides; three directions. 32 threads have a segment of a line: 8 neighbouring results, or elements of dy, each. They
// load what the segment needs into local memory, whatever the alignment of lines, so that a thread's window begins at a
// multiple of 16 bytes or at the element after; meanwhile they compute the segment before. A block has segments of a
// channel.
// Options: IN, OUT, DIRECTION (0, 1, 2; src and filter are x and w; dy and the rotated w; x and dy), FILTER_W; forward
// and backward data: HAS_BIAS, HAS_SCALE, MODE.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"
#include "kernels/gpu/portable/partials.h"

#define THREADS 256
#define LANES 32
#define GROUPS (THREADS / LANES)
#define RESULTS 8
#define SEGMENT (LANES * RESULTS)
#define WINDOW (RESULTS + FILTER_W - 1)

// Elements are loaded in pieces of 4 bytes: the first is in the first piece, or in its second half.
#define PER_PIECE (VECTOR / 4)
#define PIECES_OF(elements) CEIL_DIV((elements) + PER_PIECE - 1, PER_PIECE)
#define VECTORS_OF(elements) CEIL_DIV((elements) + PER_PIECE - 1, VECTOR)  // of a window
#define SOURCE_PIECES PIECES_OF(SEGMENT + FILTER_W - 1)
#define SOURCE_VECTORS ((SEGMENT - RESULTS) / VECTOR + VECTORS_OF(WINDOW))  // in local memory

/// Loads pieces lane, lane + LANES, .. of `count` from a column of a line on; elements outside of the line are zero.
/// Returns how many elements of the first piece are before the column.
INLINE int load_pieces(GLOBAL const in_t* line, int col, int width, int count, u32* pieces) {
  const int lane = THREAD(0) % LANES, before = (int)(((u64)line / sizeof(in_t) + col) % PER_PIECE),
            first = col - before;
  if (first >= 0 && first + count * PER_PIECE <= width) {
    GLOBAL const u32* from = (GLOBAL const u32*)(line + first) + lane;
    UNROLL
    for (int j = 0; j < CEIL_DIV(count, LANES); ++j)
      if (lane + j * LANES < count) pieces[j] = from[j * LANES];
  } else {
    UNROLL
    for (int j = 0; j < CEIL_DIV(count, LANES); ++j) {
      const int at = first + (lane + j * LANES) * PER_PIECE;
#if PER_PIECE == 1
      pieces[j] = (u32)at < (u32)width ? BITS_OF_FLOAT(line[at]) : 0;
#else
      pieces[j] = (u32)at < (u32)width ? line[at] : 0;
      pieces[j] |= (u32)(at + 1) < (u32)width ? (u32)line[at + 1] << 16 : 0;
#endif
    }
  }
  return before;
}

INLINE void keep_pieces(const u32* pieces, int count, LOCAL u32* to) {
  const int lane = THREAD(0) % LANES;
  UNROLL
  for (int j = 0; j < CEIL_DIV(count, LANES); ++j)
    if (lane + j * LANES < count) to[lane + j * LANES] = pieces[j];
}

/// `count` elements from the first of a vector on, or from the one after.
INLINE void load_window(LOCAL const u32x4* from, int before, int count, sum_t* v) {
  u32 pieces[4 * VECTORS_OF(WINDOW)];
  UNROLL
  for (int k = 0; k < VECTORS_OF(count); ++k) {
    const u32x4 u = from[k];
    pieces[4 * k] = u.x;
    pieces[4 * k + 1] = u.y;
    pieces[4 * k + 2] = u.z;
    pieces[4 * k + 3] = u.w;
  }
#if PER_PIECE == 1
  UNROLL
  for (int j = 0; j < count; ++j) v[j] = FLOAT_OF_BITS(pieces[j]);
#else
  if (before == 0) {
    UNROLL
    for (int j = 0; j < count; ++j) v[j] = NARROW(pieces[j / 2] >> 16 * (j % 2));
  } else {
    UNROLL
    for (int j = 0; j < count; ++j) v[j] = NARROW(pieces[(j + 1) / 2] >> 16 * ((j + 1) % 2));
  }
#endif
}

/// A segment of a line: where the line begins in src and dst, and the segment's first result.
typedef struct {
  i64 src, dst;
  int col;
} Segment;

INLINE Segment segment_at(int i, int channel, DepthwiseWindowShape d, Divider by_line, Divider by_rows) {
  Segment s;
  const int line = divide(i, by_line), image = divide(line, by_rows), row = line - image * d.dst_h;
  s.src = image * d.src_image + ((i64)channel * d.src_channel + (i64)row * d.src_row);
  s.dst = image * d.dst_image + ((i64)channel * d.dst_channel + (i64)row * d.dst_row);
  s.col = (i - line * (int)by_line.divisor) * SEGMENT;
  return s;
}

#if DIRECTION != 2
#include "kernels/gpu/portable/epilogue.h"

/// Block (c * parts + part) computes every parts-th of the `segments` of channel c. A line's first segment begins where
/// the address of dst is a multiple of 16 bytes, so that stores are vectors.
KERNEL THREADS_PER_BLOCK_OF(THREADS, FILTER_W > 16 ? 2 : 3)  // the taps stay in registers
    depthwise_few_taps_lines(GLOBAL const in_t* RESTRICT src, GLOBAL const in_t* RESTRICT w, GLOBAL out_t* dst,
                             CHANNEL_PARAMETERS, const DepthwiseWindowShape d, const int parts, const int segments,
                             const Divider by_line, const Divider by_rows, const Scalars scalars) {
  SHARED u32x4 lines[2 * GROUPS * SOURCE_VECTORS];
  const int channel = BLOCK(0) / parts, part = BLOCK(0) - channel * parts;
  const int group = THREAD(0) / LANES, lane = THREAD(0) % LANES, step = parts * GROUPS;
  u32 pieces[CEIL_DIV(SOURCE_PIECES, LANES)];
  Segment next = segment_at(MIN(part * GROUPS + group, segments - 1), channel, d, by_line, by_rows);
  next.col -= (int)((u64)(dst + next.dst) / sizeof(out_t) % VECTOR);
  int next_before = load_pieces(src + next.src, next.col - d.pad_w, d.src_w, SOURCE_PIECES, pieces);
  sum_t taps[FILTER_W];
  UNROLL
  for (int s = 0; s < FILTER_W; ++s)
    taps[s] = LOAD(IN, w, (i64)channel * FILTER_W + (DIRECTION == 1 ? FILTER_W - 1 - s : s));
  const ChannelTerms b = CHANNEL_TERMS(channel);
  keep_pieces(pieces, SOURCE_PIECES, (LOCAL u32*)(lines + group * SOURCE_VECTORS));
  LANES_BARRIER();
  int buffer = 0;
  NO_UNROLL
  for (int first = part * GROUPS; first < segments; first += step) {
    const Segment now = next;
    const int more = first + step < segments, before = next_before;
    if (more) {
      next = segment_at(MIN(first + step + group, segments - 1), channel, d, by_line, by_rows);
      next.col -= (int)((u64)(dst + next.dst) / sizeof(out_t) % VECTOR);
      next_before = load_pieces(src + next.src, next.col - d.pad_w, d.src_w, SOURCE_PIECES, pieces);
    }
    const int col = now.col + lane * RESULTS;
    if (first + group < segments && col < d.dst_w) {
      sum_t v[WINDOW], acc[RESULTS];
      load_window(lines + (buffer * GROUPS + group) * SOURCE_VECTORS + lane * (RESULTS / VECTOR), before, WINDOW, v);
      UNROLL
      for (int q = 0; q < RESULTS; ++q) acc[q] = 0;
      UNROLL
      for (int s = 0; s < FILTER_W; ++s) {
        UNROLL
        for (int q = 0; q < RESULTS; ++q) acc[q] = MULTIPLY_ADD(v[q + s], taps[s], acc[q]);
      }
      GLOBAL out_t* to = dst + now.dst + col;
      UNROLL
      for (int q = 0; q < RESULTS; q += VECTOR) {
        if (col + q >= 0 && col + q + VECTOR <= d.dst_w) {
          finish(acc + q, VECTOR, to + q, b, scalars);
          store_vector(to + q, acc + q);
        } else {
          UNROLL
          for (int k = q; k < q + VECTOR; ++k)
            if ((u32)(col + k) < (u32)d.dst_w) STORE(OUT, to, k, finished(acc[k], to + k, b, scalars));
        }
      }
    }
    buffer ^= 1;
    if (more) keep_pieces(pieces, SOURCE_PIECES, (LOCAL u32*)(lines + (buffer * GROUPS + group) * SOURCE_VECTORS));
    LANES_BARRIER();
  }
}

#else

#define DY_PIECES PIECES_OF(SEGMENT)
#define BOTH_VECTORS (SOURCE_VECTORS + (SEGMENT - RESULTS) / VECTOR + VECTORS_OF(RESULTS))  // in local memory
#define SUM_VECTORS (FILTER_W * THREADS / 4)

INLINE void add_products(const sum_t* v, const sum_t* g, int count, sum_t* acc) {
  UNROLL
  for (int q = 0; q < RESULTS; ++q) {
    if (q >= count) continue;
    UNROLL
    for (int s = 0; s < FILTER_W; ++s) acc[s] = MULTIPLY_ADD(v[q + s], g[q], acc[s]);
  }
}

/// Block (c * parts + part) sums every parts-th of the `segments` of dy of channel c. partials[part][channel][tap].
KERNEL THREADS_PER_BLOCK_OF(THREADS, 2)
    depthwise_few_taps_lines_weights(GLOBAL const in_t* RESTRICT x, GLOBAL const in_t* RESTRICT dy,
                                     GLOBAL sum_t* partials, const DepthwiseWindowShape d, const int parts,
                                     const int segments, const Divider by_line, const Divider by_rows) {
  SHARED u32x4 local_memory[MAX(2 * GROUPS * BOTH_VECTORS, SUM_VECTORS)];
  const int channel = BLOCK(0) / parts, part = BLOCK(0) - channel * parts;
  const int group = THREAD(0) / LANES, lane = THREAD(0) % LANES, step = parts * GROUPS;
  u32 of_x[CEIL_DIV(SOURCE_PIECES, LANES)], of_dy[CEIL_DIV(DY_PIECES, LANES)];
  sum_t acc[FILTER_W];
  UNROLL
  for (int s = 0; s < FILTER_W; ++s) acc[s] = 0;
  int buffer = 1, col = 0, before_x = 0, before_dy = 0;
  NO_UNROLL
  for (int first = part * GROUPS - step; first < segments; first += step) {  // loads come one step before
    const int more = first + step < segments, now = col + lane * RESULTS;
    const int now_before_x = before_x, now_before_dy = before_dy;
    if (more) {
      const Segment next = segment_at(MIN(first + step + group, segments - 1), channel, d, by_line, by_rows);
      col = next.col;
      before_x = load_pieces(x + next.src, col - d.pad_w, d.src_w, SOURCE_PIECES, of_x);
      before_dy = load_pieces(dy + next.dst, col, d.dst_w, DY_PIECES, of_dy);
    }
    if (first >= 0 && first + group < segments && now < d.dst_w) {
      sum_t v[WINDOW], g[RESULTS];
      LOCAL const u32x4* from = local_memory + (buffer * GROUPS + group) * BOTH_VECTORS + lane * (RESULTS / VECTOR);
      load_window(from, now_before_x, WINDOW, v);
      load_window(from + SOURCE_VECTORS, now_before_dy, RESULTS, g);
      if (now + RESULTS <= d.dst_w)
        add_products(v, g, RESULTS, acc);
      else
        add_products(v, g, d.dst_w - now, acc);
    }
    buffer ^= 1;
    if (more) {
      LOCAL u32x4* to = local_memory + (buffer * GROUPS + group) * BOTH_VECTORS;
      keep_pieces(of_x, SOURCE_PIECES, (LOCAL u32*)to);
      keep_pieces(of_dy, DY_PIECES, (LOCAL u32*)(to + SOURCE_VECTORS));
    }
    LANES_BARRIER();
  }
  BARRIER();  // sums take the place of lines
  LOCAL sum_t* sums = (LOCAL sum_t*)local_memory;
  UNROLL
  for (int s = 0; s < FILTER_W; ++s) sums[THREAD(0) * FILTER_W + s] = acc[s];
  add_slots(sums, FILTER_W, THREADS);
  GLOBAL sum_t* results = (GLOBAL sum_t*)align16(partials);
  if (THREAD(0) < FILTER_W) results[((i64)part * d.channels + channel) * FILTER_W + THREAD(0)] = sums[THREAD(0)];
}
#endif
