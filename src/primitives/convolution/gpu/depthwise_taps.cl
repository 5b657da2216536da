// Depthwise convolution of any filter, strides, dilations and layout, three directions: a thread per result, tap by tap
// from memory; neighbouring threads read neighbouring elements, which the caches serve again for the other taps.
// Options: IN, OUT, DIRECTION (0, 1, 2), FILTER_W, LAST (channels innermost); forward and backward data: HAS_BIAS,
// MODE.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"
#include "kernels/gpu/portable/partials.h"

#define THREADS 256

typedef struct {
  int channel, row, col;
} Element;

INLINE Element element_at(int i, int channels, int rows, int cols) {
  Element e;
  if (LAST) {
    const int pixel = i / channels;
    e.channel = i - pixel * channels;
    e.row = pixel / cols;
    e.col = pixel - e.row * cols;
  } else {
    const int line = i / cols;
    e.col = i - line * cols;
    e.channel = line / rows;
    e.row = line - e.channel * rows;
  }
  return e;
}

#if DIRECTION != 2
#include "kernels/gpu/portable/epilogue.h"

/// Backward data: the first tap that maps this position, padding included, to an element of src; `step` if none does.
INLINE int first_tap(int at, int dilation, int stride, int step) {
  int tap = 0;
  while (tap < step && (at - tap * dilation) % stride != 0) ++tap;
  return tap;
}

KERNEL THREADS_PER_BLOCK(THREADS)
    depthwise_taps(GLOBAL const in_t* RESTRICT src, GLOBAL const in_t* RESTRICT w, GLOBAL out_t* dst,
                   GLOBAL const out_t* RESTRICT bias, const DepthwiseWindowShape d, const Scalars scalars) {
  const int i = BLOCK(0) * THREADS + THREAD(0);
  const Element e = element_at(i, d.channels, d.dst_h, d.dst_w);
  if (LAST ? e.row >= d.dst_h : e.channel >= d.channels) return;
#if DIRECTION == 1
  const int h0 = e.row + d.pad_h, w0 = e.col + d.pad_w;
  const int first_row = first_tap(h0, d.dilation_h, d.stride_h, d.tap_step_h);
  const int first_col = first_tap(w0, d.dilation_w, d.stride_w, d.tap_step_w);
  const int tap_rows = first_row < d.tap_step_h ? d.filter_h : 0, tap_cols = first_col < d.tap_step_w ? FILTER_W : 0;
#else
  const int h0 = e.row * d.stride_h - d.pad_h, w0 = e.col * d.stride_w - d.pad_w;
  const int first_row = 0, first_col = 0, tap_rows = d.filter_h, tap_cols = FILTER_W;
#endif
  GLOBAL const in_t* filter = w + (i64)e.channel * d.filter_h * FILTER_W;
  const sum_t b = BIAS_OF(bias, e.channel);
  for (int n = BLOCK(1); n < d.images; n += BLOCKS(1)) {
    GLOBAL const in_t* from = src + n * d.src_image + (i64)e.channel * d.src_channel;
    sum_t acc = 0;
    for (int r = first_row; r < tap_rows; r += d.tap_step_h) {
#if DIRECTION == 1
      if (h0 < r * d.dilation_h) break;
      const int h = (h0 - r * d.dilation_h) / d.stride_h;
#else
      const int h = h0 + r * d.dilation_h;
#endif
      if ((u32)h >= (u32)d.src_h) continue;
      for (int s = first_col; s < tap_cols; s += d.tap_step_w) {
#if DIRECTION == 1
        if (w0 < s * d.dilation_w) break;
        const int v = (w0 - s * d.dilation_w) / d.stride_w;
#else
        const int v = w0 + s * d.dilation_w;
#endif
        if ((u32)v < (u32)d.src_w)
          acc = MULTIPLY_ADD(LOAD(IN, from, (i64)h * d.src_row + (i64)v * d.src_col),
                             LOAD(IN, filter, r * FILTER_W + s), acc);
      }
    }
    GLOBAL out_t* to = dst + n * d.dst_image + (i64)e.channel * d.dst_channel;
    to += (i64)e.row * d.dst_row + (i64)e.col * d.dst_col;
    STORE(OUT, to, 0, finished(acc, to, b, scalars));
  }
}

#else

#define CHUNK 8

/// A block sums CHUNK taps for `lanes` channels (a power of two) over every `parts`-th group of elements of dy.
/// partials[part][channel][tap].
KERNEL THREADS_PER_BLOCK(THREADS)
    depthwise_taps_weights(GLOBAL const in_t* RESTRICT x, GLOBAL const in_t* RESTRICT dy, GLOBAL sum_t* partials,
                           const DepthwiseWindowShape d, const int parts) {
  SHARED sum_t sums[CHUNK * THREADS];
  const int taps = d.filter_h * FILTER_W, chunks = CEIL_DIV(taps, CHUNK), rest = BLOCK(0) / chunks;
  const int first = (BLOCK(0) - rest * chunks) * CHUNK, groups = CEIL_DIV(d.channels, d.lanes), part = rest / groups;
  const int c0 = (rest - part * groups) * d.lanes, slots = THREADS / d.lanes, slot = THREAD(0) / d.lanes;
  const int lane = THREAD(0) - slot * d.lanes, c = c0 + lane, plane = d.dst_h * d.dst_w;
  sum_t acc[CHUNK];
  UNROLL
  for (int t = 0; t < CHUNK; ++t) acc[t] = 0;
  if (c < d.channels)
    for (int i = part * slots + slot; i < d.images * plane; i += parts * slots) {
      const int n = i / plane, pixel = i - n * plane, row = pixel / d.dst_w, col = pixel - row * d.dst_w;
      GLOBAL const in_t* from = x + n * d.src_image + (i64)c * d.src_channel;
      GLOBAL const in_t* g = dy + n * d.dst_image + (i64)c * d.dst_channel;
      const sum_t value = LOAD(IN, g, (i64)row * d.dst_row + (i64)col * d.dst_col);
      UNROLL
      for (int t = 0; t < CHUNK; ++t) {
        const int r = (first + t) / FILTER_W, s = first + t - r * FILTER_W;
        const int h = row * d.stride_h - d.pad_h + r * d.dilation_h, v = col * d.stride_w - d.pad_w + s * d.dilation_w;
        if (first + t < taps && (u32)h < (u32)d.src_h && (u32)v < (u32)d.src_w)
          acc[t] = MULTIPLY_ADD(LOAD(IN, from, (i64)h * d.src_row + (i64)v * d.src_col), value, acc[t]);
      }
    }
  UNROLL
  for (int t = 0; t < CHUNK; ++t) sums[(slot * CHUNK + t) * d.lanes + lane] = acc[t];
  add_slots(sums, CHUNK * d.lanes, slots);
  GLOBAL sum_t* results = (GLOBAL sum_t*)align16(partials);
  for (int i = THREAD(0); i < CHUNK * d.lanes; i += THREADS) {
    const int t = first + i / d.lanes, k = c0 + i % d.lanes;
    if (t < taps && k < d.channels) results[((i64)part * d.channels + k) * taps + t] = sums[i];
  }
}
#endif
