// Depthwise convolution of one to three dimensions, any filter, strides, dilations, layout and number of output
// channels per input channel; three directions. Taps pass one by one; neighbouring threads read neighbouring elements,
// which the caches serve again. Where the rows of a filter slide (stride and dilation 1), a thread has ROWS results of
// a column and loads each element of the column once for all CHUNK rows. Options: IN, OUT, DIRECTION (0, 1, 2),
// FILTER_D, FILTER_W, LAST (channels innermost), VEC (channels per thread: 4, or 1), SLIDES, ROWS and CHUNK (1 if
// nothing slides); forward and backward data: TAP_FLOATS (local memory for the taps of a block, LAST only; 0: they are
// read where they are), HAS_BIAS, HAS_SCALE, MODE; backward weights: COLUMNS of CHUNK taps per block.
// SPDX-License-Identifier: MIT
#define COLS 1
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"
#include "kernels/gpu/portable/depthwise.h"
#include "kernels/gpu/portable/partials.h"

#define WINDOW (ROWS + CHUNK - 1)

/// The first of a thread's results.
typedef struct {
  int depth, row, col;
} Place;

INLINE int places(const DepthwiseWindowShape* d, const DepthwiseVolume* e) {
  return e->dst_d * CEIL_DIV(d->dst_h, ROWS) * d->dst_w;
}

INLINE Place place_at(int i, const DepthwiseWindowShape* d) {
  Place p;
  const int row_sets = CEIL_DIV(d->dst_h, ROWS), line = i / d->dst_w;
  p.col = i - line * d->dst_w;
  p.depth = line / row_sets;
  p.row = (line - p.depth * row_sets) * ROWS;
  return p;
}

/// WINDOW elements of a column of src from row h0 on, zeros outside.
INLINE void load_window(GLOBAL const in_t* column, int h0, const DepthwiseWindowShape* d, sum_t (*v)[VEC]) {
  UNROLL
  for (int i = 0; i < WINDOW; ++i)
    load_or_zero(column + (i64)(h0 + i) * d->src_row, (u32)(h0 + i) < (u32)d->src_h, v[i]);
}

#if DIRECTION != 2
#include "kernels/gpu/portable/epilogue.h"

/// The taps of a dimension that a result may read: every `step`-th of those from `first` to `end`. Tap 0 reads position
/// `at`; backward data: divided by the stride.
typedef struct {
  int first, end, step, at;
} Taps;

INLINE Taps taps_at(int place, int filter, int pad, int stride, int dilation, int step) {
#if DIRECTION == 1
  int first = 0;
  while (stride > 1 && first < step && (place + pad - first * dilation) % stride != 0) ++first;
  const Taps t = {first, first < step ? filter : 0, step, place + pad};
#else
  const Taps t = {0, filter, 1, place * stride - pad};
#endif
  return t;
}

/// The position in src that a tap reads; outside of src in the padding.
INLINE int position(Taps t, int tap, int stride, int dilation) {
#if DIRECTION == 1
  const int at = t.at - tap * dilation;
  return at < 0 || stride == 1 ? at : at / stride;
#else
  return t.at + tap * dilation;
#endif
}

#if TAP_FLOATS > 0
INLINE void load_tap_of(LOCAL const sum_t* p, int distance, sum_t* v) {
#if VEC == 4
  local_load4(p, v);
#else
  v[0] = p[0];
#endif
}
#else
INLINE void load_tap_of(GLOBAL const in_t* p, int distance, sum_t* v) {
  UNROLL
  for (int u = 0; u < VEC; ++u) v[u] = LOAD(IN, p, u * distance);
}
#endif

KERNEL THREADS_PER_BLOCK(THREADS)
    depthwise_taps(GLOBAL const in_t* RESTRICT src, GLOBAL const in_t* RESTRICT w, GLOBAL out_t* dst,
                   CHANNEL_PARAMETERS, const DepthwiseWindowShape d, const DepthwiseVolume e, const Scalars scalars) {
  const int count = FILTER_D * d.filter_h * FILTER_W;  // taps
#if LAST
  const int width = d.lanes * VEC, blocks_c = CEIL_DIV(d.channels, width), group = BLOCK(0) / blocks_c;
  const int slots = THREADS / d.lanes, slot = THREAD(0) / d.lanes, lane = (THREAD(0) - slot * d.lanes) * VEC;
  const int c0 = (BLOCK(0) - group * blocks_c) * width, c = c0 + lane;
  const Place p = place_at(group * slots + slot, &d);
  const int active = slot < slots && c < d.channels && p.depth < e.dst_d;
#else
  const int of_channel = places(&d, &e), index = BLOCK(0) * THREADS + THREAD(0), c = index / of_channel;
  const Place p = place_at(index - c * of_channel, &d);
  const int active = c < d.channels;
#endif
#if TAP_FLOATS > 0
  SHARED sum_t staged[TAP_FLOATS] __attribute__((aligned(16)));  // [output channel of an input channel][tap][channel]
  const int filters = DIRECTION == 1 ? e.multiplier : 1, of_block = MIN(width, d.channels - c0) * filters * count;
  for (int i = THREAD(0); i < of_block; i += THREADS) {
    const int k = i / count, m = k % filters;
    staged[(m * count + i - k * count) * width + k / filters] = LOAD(IN, w, (i64)c0 * filters * count + i);
  }
  BARRIER();
#endif
  if (!active) return;
  const Taps depths = taps_at(p.depth, FILTER_D, e.pad_d, e.stride_d, e.dilation_d, e.tap_step_d);
  const Taps cols = taps_at(p.col, FILTER_W, d.pad_w, d.stride_w, d.dilation_w, d.tap_step_w);
#if SLIDES  // backward data: forward, with the rows of the filter in reverse order
  const Taps rows = {0, 1, 1, DIRECTION == 1 ? p.row + d.pad_h - (CHUNK - 1) : p.row - d.pad_h};
#else
  const Taps rows = taps_at(p.row, d.filter_h, d.pad_h, d.stride_h, d.dilation_h, d.tap_step_h);
#endif
  ChannelTerms b[VEC];
  UNROLL
  for (int u = 0; u < VEC; ++u) b[u] = CHANNEL_TERMS(c + u);
  for (int n = BLOCK(1); n < d.images; n += BLOCKS(1)) {
    sum_t acc[ROWS][VEC];
    UNROLL
    for (int q = 0; q < ROWS; ++q) {
      UNROLL
      for (int u = 0; u < VEC; ++u) acc[q][u] = 0;
    }
    for (int m = 0; m < (DIRECTION == 1 ? e.multiplier : 1); ++m) {
      const int from_channel = DIRECTION == 1 ? c * e.multiplier + m : c / e.multiplier;
      GLOBAL const in_t* from = src + n * d.src_image + (i64)from_channel * d.src_channel;
#if TAP_FLOATS > 0
      LOCAL const sum_t* filter = staged + m * count * width + lane;
      const int tap_distance = width;
#else
      GLOBAL const in_t* filter = w + (i64)(DIRECTION == 1 ? from_channel : c) * count;
      const int tap_distance = 1;
#endif
      for (int z = depths.first; z < depths.end; z += depths.step) {
        const int depth = position(depths, z, e.stride_d, e.dilation_d);
        if ((u32)depth >= (u32)e.src_d) continue;
        for (int r = rows.first; r < rows.end; r += rows.step) {
          const int h0 = SLIDES ? rows.at : position(rows, r, d.stride_h, d.dilation_h);
          if (!SLIDES && (u32)h0 >= (u32)d.src_h) continue;
          for (int s = cols.first; s < cols.end; s += cols.step) {
            const int col = position(cols, s, d.stride_w, d.dilation_w);
            if ((u32)col >= (u32)d.src_w) continue;
            sum_t v[WINDOW][VEC];
            load_window(from + (i64)depth * e.src_depth + (i64)col * d.src_col, h0, &d, v);
            UNROLL
            for (int k = 0; k < CHUNK; ++k) {
              const int row = DIRECTION == 1 && SLIDES ? CHUNK - 1 - k : r + k;
              sum_t tap[VEC];
              load_tap_of(filter + ((z * d.filter_h + row) * FILTER_W + s) * tap_distance, count, tap);
              UNROLL
              for (int q = 0; q < ROWS; ++q) multiply_add(v[q + k], tap, acc[q]);
            }
          }
        }
      }
    }
    GLOBAL out_t* to = dst + n * d.dst_image + (i64)c * d.dst_channel + (i64)p.depth * e.dst_depth;
    to += (i64)p.row * d.dst_row + (i64)p.col * d.dst_col;
    UNROLL
    for (int q = 0; q < ROWS; ++q) {
      if (p.row + q >= d.dst_h) continue;
      GLOBAL out_t* result = to + (i64)q * d.dst_row;
      UNROLL
      for (int u = 0; u < VEC; ++u) acc[q][u] = finished(acc[q][u], result + u, b[u], scalars);
      STORE_VEC(result, acc[q]);
    }
  }
}

#else

#define SUMS (COLUMNS * CHUNK)
#define TOGETHER (8 / VEC)  // taps whose sums pass through local memory at a time

/// A block sums COLUMNS columns of taps for `lanes` vectors of channels (a power of two) over every `parts`-th group of
/// places. partials[part][channel][tap].
KERNEL THREADS_PER_BLOCK(THREADS)
    depthwise_taps_weights(GLOBAL const in_t* RESTRICT x, GLOBAL const in_t* RESTRICT dy, GLOBAL sum_t* partials,
                           const DepthwiseWindowShape d, const DepthwiseVolume e, const int parts) {
  SHARED sum_t sums[8 * THREADS];
  const int rows = SLIDES ? 1 : d.filter_h, columns = FILTER_D * rows * FILTER_W, count = columns * CHUNK;
  const int chunks = CEIL_DIV(columns, COLUMNS), rest = BLOCK(0) / chunks, first = (BLOCK(0) - rest * chunks) * COLUMNS;
  const int width = d.lanes * VEC, groups = CEIL_DIV(d.channels, width), part = rest / groups;
  const int slots = THREADS / d.lanes, slot = THREAD(0) / d.lanes, lane = (THREAD(0) - slot * d.lanes) * VEC;
  const int c0 = (rest - part * groups) * width, c = c0 + lane, of_image = places(&d, &e);
  sum_t acc[SUMS][VEC];
  UNROLL
  for (int t = 0; t < SUMS; ++t) {
    UNROLL
    for (int u = 0; u < VEC; ++u) acc[t][u] = 0;
  }
  if (c < d.channels)
    for (int i = part * slots + slot; i < d.images * of_image; i += parts * slots) {
      const int n = i / of_image;
      const Place p = place_at(i - n * of_image, &d);
      GLOBAL const in_t* from = x + n * d.src_image + (i64)(c / e.multiplier) * d.src_channel;
      GLOBAL const in_t* g = dy + n * d.dst_image + (i64)c * d.dst_channel + (i64)p.depth * e.dst_depth;
      g += (i64)p.row * d.dst_row + (i64)p.col * d.dst_col;
      sum_t values[ROWS][VEC];
      UNROLL
      for (int q = 0; q < ROWS; ++q) load_or_zero(g + (i64)q * d.dst_row, p.row + q < d.dst_h, values[q]);
      UNROLL
      for (int t = 0; t < COLUMNS; ++t) {
        const int line = (first + t) / FILTER_W, s = first + t - line * FILTER_W, z = line / rows;
        const int depth = p.depth * e.stride_d - e.pad_d + z * e.dilation_d;
        const int h0 = p.row * d.stride_h - d.pad_h + (line - z * rows) * d.dilation_h;
        const int col = p.col * d.stride_w - d.pad_w + s * d.dilation_w;
        if (first + t >= columns || (u32)depth >= (u32)e.src_d || (u32)col >= (u32)d.src_w) continue;
        sum_t v[WINDOW][VEC];
        load_window(from + (i64)depth * e.src_depth + (i64)col * d.src_col, h0, &d, v);
        UNROLL
        for (int k = 0; k < CHUNK; ++k) {
          UNROLL
          for (int q = 0; q < ROWS; ++q)
            if (p.row + q < d.dst_h) multiply_add(v[q + k], values[q], acc[t * CHUNK + k]);
        }
      }
    }
  GLOBAL sum_t* results = (GLOBAL sum_t*)align16(partials);
  UNROLL
  for (int from = 0; from < SUMS; from += TOGETHER) {
    BARRIER();
    UNROLL
    for (int t = 0; t < TOGETHER; ++t) {
      UNROLL
      for (int u = 0; u < VEC; ++u)
        sums[(slot * TOGETHER + t) * width + lane + u] = from + t < SUMS ? acc[(from + t) % SUMS][u] : 0;
    }
    add_slots(sums, TOGETHER * width, slots);
    for (int i = THREAD(0); i < TOGETHER * width; i += THREADS) {
      const int t = from + i / width, column = first + t / CHUNK, k = c0 + i % width;
      const int line = column / FILTER_W, tap = (line * CHUNK + t % CHUNK) * FILTER_W + column - line * FILTER_W;
      if (t < SUMS && column < columns && k < d.channels) results[((i64)part * d.channels + k) * count + tap] = sums[i];
    }
  }
}
#endif
