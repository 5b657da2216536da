// Depthwise convolution with 2 to 32 taps along columns, one row of taps, stride and dilation 1, channels innermost,
// any other strides; three directions. A thread has VEC neighbouring channels of a run of columns. It multiplies a
// column of src by every tap while the next ones are loaded, and keeps the results, or elements of dy, that need it.
// Options: IN, OUT, DIRECTION (0, 1, 2; src and filter are x and w; dy and the rotated w; x and dy), FILTER_W, COLS
// (loaded at a time), VEC (2, or 4 of 16 bits); forward and backward data: HAS_BIAS, HAS_SCALE, MODE.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"
// Threads have as many registers as these blocks on a multiprocessor leave them.
#if DIRECTION == 2
#define RESIDENT (FILTER_W <= 8 ? 2 : 1)
#elif FILTER_W <= 8
#define RESIDENT (FILTER_W <= 4 ? 3 : 2)
#else
#define THREADS 128
#define RESIDENT (VECTOR == 4 && FILTER_W > 24 ? 2 : 3)
#endif
#include "kernels/gpu/portable/depthwise.h"
#include "kernels/gpu/portable/partials.h"

/// The channels of a column, not converted yet: the load may still be under way.
#if VEC == VECTOR / 4
typedef u32 Column;
#else
typedef u64 Column;
#endif
#if IN_KIND == KIND_fp32
#define ELEMENT_BITS 32
#define BITS(e) BITS_OF_FLOAT(e)
#define ELEMENT(bits) FLOAT_OF_BITS((u32)(bits))
#else
#define ELEMENT_BITS 16
#define BITS(e) (e)
#define ELEMENT(bits) NARROW(bits)
#endif

INLINE Column load_column(GLOBAL const in_t* p, int inside) {
  if (!inside) return 0;
#if defined(UNALIGNED)
  Column c = 0;
  UNROLL
  for (int u = 0; u < VEC; ++u) c |= (Column)BITS(p[u]) << (ELEMENT_BITS * u);
  return c;
#else
  return *(GLOBAL const Column*)p;
#endif
}

INLINE void convert_column(Column c, sum_t* v) {
  UNROLL
  for (int u = 0; u < VEC; ++u) v[u] = ELEMENT(c >> (ELEMENT_BITS * u));
}

/// COLS columns of a line of `size` columns.
INLINE void load_columns(GLOBAL const in_t* line, int step, int from, int size, Column* columns) {
  UNROLL
  for (int j = 0; j < COLS; ++j) columns[j] = load_column(line + (i64)(from + j) * step, (u32)(from + j) < (u32)size);
}

/// A run of tile_w columns.
typedef struct {
  int image, row, col;
} Run;

INLINE Run run_at(int index, DepthwiseWindowShape d) {
  Run t;
  const int runs = CEIL_DIV(d.dst_w, d.tile_w), line = index / runs;
  t.image = line / d.dst_h;
  t.row = line - t.image * d.dst_h;
  t.col = (index - line * runs) * d.tile_w;
  return t;
}

INLINE void clear(sum_t (*v)[VEC]) {
  UNROLL
  for (int s = 0; s < FILTER_W; ++s) {
    UNROLL
    for (int u = 0; u < VEC; ++u) v[s][u] = 0;
  }
}

/// Makes room for `last`.
INLINE void shift(sum_t (*v)[VEC], const sum_t* last) {
  UNROLL
  for (int s = 0; s < FILTER_W; ++s) {
    UNROLL
    for (int u = 0; u < VEC; ++u) v[s][u] = s + 1 < FILTER_W ? v[(s + 1) % FILTER_W][u] : last[u];
  }
}

#if DIRECTION != 2
#include "kernels/gpu/portable/epilogue.h"

KERNEL THREADS_PER_BLOCK_OF(THREADS, RESIDENT)
    depthwise_few_taps_channels(GLOBAL const in_t* RESTRICT src, GLOBAL const in_t* RESTRICT w, GLOBAL out_t* dst,
                                CHANNEL_PARAMETERS, const DepthwiseWindowShape d, const Scalars scalars) {
  const int blocks_c = CEIL_DIV(d.channels, d.lanes * VEC), group = BLOCK(0) / blocks_c;
  const int slots = THREADS / d.lanes, slot = THREAD(0) / d.lanes, lane = THREAD(0) - slot * d.lanes;
  const int c = ((BLOCK(0) - group * blocks_c) * d.lanes + lane) * VEC;
  const Run t = run_at(group * slots + slot, d);
  if (slot >= slots || c >= d.channels || t.image >= d.images) return;
  GLOBAL const in_t* from = src + t.image * d.src_image + (i64)t.row * d.src_row + c;
  GLOBAL out_t* to = dst + t.image * d.dst_image + (i64)t.row * d.dst_row + c;
  Column next[COLS];
  load_columns(from, d.src_col, t.col - d.pad_w, d.src_w, next);
  ChannelTerms b[VEC];
  sum_t taps[FILTER_W][VEC], acc[FILTER_W][VEC];  // acc[s]: s columns after the first result that is incomplete
  UNROLL
  for (int u = 0; u < VEC; ++u) {
    b[u] = CHANNEL_TERMS(c + u);
    UNROLL
    for (int s = 0; s < FILTER_W; ++s)
      taps[s][u] = LOAD(IN, w, (i64)(c + u) * FILTER_W + (DIRECTION == 1 ? FILTER_W - 1 - s : s));
  }
  clear(acc);
  const int end = MIN(t.col + d.tile_w, d.dst_w);
  NO_UNROLL
  for (int first = t.col - (FILTER_W - 1); first < end; first += COLS) {  // the result that a column completes
    Column columns[COLS];
    UNROLL
    for (int j = 0; j < COLS; ++j) columns[j] = next[j];
    const int after = first + COLS;
    load_columns(from, d.src_col, after - d.pad_w + FILTER_W - 1, after < end ? d.src_w : 0, next);
    UNROLL
    for (int j = 0; j < COLS; ++j) {
      sum_t v[VEC], none[VEC];
      convert_column(columns[j], v);
      UNROLL
      for (int s = 0; s < FILTER_W; ++s) multiply_add(v, taps[FILTER_W - 1 - s], acc[s]);
      if (first + j >= t.col && first + j < end) {
        GLOBAL out_t* pixel = to + (i64)(first + j) * d.dst_col;
        UNROLL
        for (int u = 0; u < VEC; ++u) acc[0][u] = finished(acc[0][u], pixel + u, b[u], scalars);
        STORE_VEC(pixel, acc[0]);
      }
      UNROLL
      for (int u = 0; u < VEC; ++u) none[u] = 0;
      shift(acc, none);
    }
  }
}

#else

/// Of COLS columns from `first` on, those of dy between `begin` and `end`; `whole`: no other one meets the columns of
/// x.
INLINE void add_columns(const Column* of_x, const Column* of_dy, int first, int begin, int end, int whole,
                        sum_t (*g)[VEC], sum_t (*acc)[VEC]) {
  UNROLL
  for (int j = 0; j < COLS; ++j) {
    sum_t v[VEC], last[VEC];
    convert_column(of_x[j], v);
    convert_column(of_dy[j], last);
    shift(g, last);
    UNROLL
    for (int s = 0; s < FILTER_W; ++s)
      if (whole || (first + j - s >= begin && first + j - s < end)) multiply_add(v, g[FILTER_W - 1 - s], acc[s]);
  }
}

/// A block sums the taps of `lanes` vectors of channels (a power of two) over every `parts`-th group of runs.
/// partials[part][channel][tap].
KERNEL THREADS_PER_BLOCK_OF(THREADS, RESIDENT)
    depthwise_few_taps_channels_weights(GLOBAL const in_t* RESTRICT x, GLOBAL const in_t* RESTRICT dy,
                                        GLOBAL sum_t* partials, const DepthwiseWindowShape d, const int parts) {
  SHARED sum_t sums[THREADS * VEC];
  const int width = d.lanes * VEC, blocks_c = CEIL_DIV(d.channels, width), part = BLOCK(0) / blocks_c;
  const int c0 = (BLOCK(0) - part * blocks_c) * width, slots = THREADS / d.lanes, slot = THREAD(0) / d.lanes;
  const int c = c0 + (THREAD(0) - slot * d.lanes) * VEC, runs = d.images * d.dst_h * CEIL_DIV(d.dst_w, d.tile_w);
  sum_t acc[FILTER_W][VEC];
  clear(acc);
  for (int i = part * slots + slot; c < d.channels && i < runs; i += parts * slots) {
    const Run t = run_at(i, d);
    GLOBAL const in_t* x_line = x + t.image * d.src_image + (i64)t.row * d.src_row + c;
    GLOBAL const in_t* dy_line = dy + t.image * d.dst_image + (i64)t.row * d.dst_row + c;
    const int end = MIN(t.col + d.tile_w, d.dst_w);
    Column next_x[COLS], next_dy[COLS];
    sum_t g[FILTER_W][VEC];  // the last columns of dy
    clear(g);
    load_columns(x_line, d.src_col, t.col - d.pad_w, d.src_w, next_x);
    load_columns(dy_line, d.dst_col, t.col, end, next_dy);
    NO_UNROLL
    for (int first = t.col; first < end + FILTER_W - 1; first += COLS) {
      Column of_x[COLS], of_dy[COLS];
      UNROLL
      for (int j = 0; j < COLS; ++j) {
        of_x[j] = next_x[j];
        of_dy[j] = next_dy[j];
      }
      const int after = first + COLS;
      load_columns(x_line, d.src_col, after - d.pad_w, after < end + FILTER_W - 1 ? d.src_w : 0, next_x);
      load_columns(dy_line, d.dst_col, after, end, next_dy);
      if (first - (FILTER_W - 1) >= t.col && after <= end)
        add_columns(of_x, of_dy, first, t.col, end, 1, g, acc);
      else
        add_columns(of_x, of_dy, first, t.col, end, 0, g, acc);
    }
  }
  GLOBAL sum_t* results = (GLOBAL sum_t*)align16(partials);
  UNROLL
  for (int s = 0; s < FILTER_W; ++s) {
    BARRIER();
    UNROLL
    for (int u = 0; u < VEC; ++u) sums[slot * width + c - c0 + u] = acc[s][u];
    add_slots(sums, width, slots);
    for (int i = THREAD(0); i < width; i += THREADS)
      if (c0 + i < d.channels) results[((i64)part * d.channels + c0 + i) * FILTER_W + s] = sums[i];
  }
}
#endif
