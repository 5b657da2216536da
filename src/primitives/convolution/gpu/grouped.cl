// Grouped convolution with few channels per group, forward and backward data. A thread computes OUTPUTS channels of
// THREAD_PIXELS adjacent pixels: along a row for NHWC, down a column for NCHW, so that neighbouring threads read
// neighbouring addresses. It loads four input channels of the window of these pixels into registers and uses them for
// all taps along the window; the filters of the block's channels are in local memory.
// Options: IN, OUT, DIRECTION (0, 1), FAST_CHANNEL (1 for NHWC), FILTER_H, FILTER_W, STRIDE (1, 2; 0 for any stride and
// dilation), OUTPUTS (4, 8), THREAD_PIXELS, LOCAL_FLOATS.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"

#define THREADS 256
#define TAPS (FILTER_H * FILTER_W)

#if FAST_CHANNEL
#define ALONG FILTER_W  // taps along the window
#define ACROSS FILTER_H
#define TAP(across, along) ((across)*FILTER_W + (along))
#else
#define ALONG FILTER_H
#define ACROSS FILTER_W
#define TAP(across, along) ((along)*FILTER_W + (across))
#endif
#define WINDOW ((THREAD_PIXELS - 1) * STRIDE + ALONG)

/// Offset of channel 0 of pixel (h, w) within an image, and the stride of channels.
#if FAST_CHANNEL
#define PIXEL(h, w, width, channels) (((h) * (width) + (w)) * (channels))
#define CHANNEL_STEP(height, width) 1
#else
#define PIXEL(h, w, width, channels) ((h) * (width) + (w))
#define CHANNEL_STEP(height, width) ((height) * (width))
#endif

INLINE void load_channels(GLOBAL const in_t* p, int step, int inside, sum_t* v) {
  UNROLL
  for (int c = 0; c < 4; ++c) v[c] = 0;
  if (!inside) return;
#if FAST_CHANNEL
  load4(p, v);
#else
  UNROLL
  for (int c = 0; c < 4; ++c) v[c] = LOAD(IN, p, (i64)c * step);
#endif
}

/// acc += v * w for four input channels at one tap; w is at the first channel's weights.
INLINE void multiply_outputs(LOCAL const sum_t* w, int units, const sum_t (*v)[4], int first, int step,
                             sum_t (*acc)[OUTPUTS]) {
  UNROLL
  for (int c = 0; c < 4; ++c) {
    sum_t taps[OUTPUTS];
    UNROLL
    for (int k = 0; k < OUTPUTS; k += 4) local_load4(w + (c * OUTPUTS + k) * units, taps + k);
    UNROLL
    for (int i = 0; i < THREAD_PIXELS; ++i) {
      UNROLL
      for (int k = 0; k < OUTPUTS; ++k) acc[i][k] = MULTIPLY_ADD(v[first + i * step][c], taps[k], acc[i][k]);
    }
  }
}

/// Copies the block's filters to local memory as [tap][input channel][quad of outputs][unit][4].
INLINE void copy_filters(GLOBAL const in_t* w, GroupedShape g, int first_unit, LOCAL sum_t* filters) {
  const int per_unit = TAPS * g.reduced * OUTPUTS, all = g.groups * g.outputs / OUTPUTS;
  for (int i = THREAD(0); i < per_unit * g.units; i += THREADS) {
    const int unit = i / per_unit, rest = i - unit * per_unit, k = rest / (TAPS * g.reduced);
    const int filter_element = rest - k * TAPS * g.reduced;
#if FAST_CHANNEL
    const int tap = filter_element / g.reduced, c = filter_element - tap * g.reduced;
#else
    const int c = filter_element / TAPS, tap = filter_element - c * TAPS;
#endif
    if (first_unit + unit >= all) continue;
    const int channel = (first_unit + unit) * OUTPUTS + k, group = channel / g.outputs, local_k = channel % g.outputs;
#if DIRECTION == 0
    const int from = tap, first = (group * g.outputs + local_k) * TAPS * g.reduced, column = c, columns = g.reduced;
#else
    const int from = STRIDE == 0 ? tap : TAPS - 1 - tap, column = local_k, columns = g.outputs;
    const int first = (group * g.reduced + c) * TAPS * g.outputs;
#endif
    const int at = FAST_CHANNEL ? from * columns + column : column * TAPS + from;
    filters[(((tap * g.reduced + c) * (OUTPUTS / 4) + k / 4) * g.units + unit) * 4 + k % 4] = LOAD(IN, w, first + at);
  }
}

#if STRIDE != 0
INLINE void gather(GLOBAL const in_t* src, LOCAL const sum_t* filters, GroupedShape g, int row, int col,
                   sum_t (*acc)[OUTPUTS]) {
  const int step = CHANNEL_STEP(g.src_h, g.src_w);
  const int h0 = row * STRIDE - g.pad_h, w0 = col * STRIDE - g.pad_w;
  for (int c = 0; c < g.reduced; c += 4) {
    NO_UNROLL
    for (int a = 0; a < ACROSS; ++a) {
      sum_t v[WINDOW][4];
      UNROLL
      for (int i = 0; i < WINDOW; ++i) {
        const int h = FAST_CHANNEL ? h0 + a : h0 + i, w = FAST_CHANNEL ? w0 + i : w0 + a;
        load_channels(src + PIXEL(h, w, g.src_w, g.groups * g.reduced) + (i64)c * step, step,
                      (u32)h < (u32)g.src_h && (u32)w < (u32)g.src_w, v[i]);
      }
      UNROLL
      for (int b = 0; b < ALONG; ++b)
        multiply_outputs(filters + (TAP(a, b) * g.reduced + c) * OUTPUTS * g.units, g.units, v, b, STRIDE, acc);
    }
  }
}
#else
/// The src coordinate that `tap` of output coordinate `at` reads, or -1 outside of src.
INLINE int source_of(int at, int tap, int pad, int stride, int dilation, int size) {
#if DIRECTION == 0
  const int from = at * stride - pad + tap * dilation;
#else
  const int scaled = at + pad - tap * dilation, from = scaled < 0 || scaled % stride != 0 ? -1 : scaled / stride;
#endif
  return from < size ? from : -1;
}

INLINE void gather(GLOBAL const in_t* src, LOCAL const sum_t* filters, GroupedShape g, int row, int col,
                   sum_t (*acc)[OUTPUTS]) {
  const int step = CHANNEL_STEP(g.src_h, g.src_w);
  for (int c = 0; c < g.reduced; c += 4) {
    NO_UNROLL
    for (int tap = 0; tap < TAPS; ++tap) {
      sum_t v[THREAD_PIXELS][4];
      UNROLL
      for (int i = 0; i < THREAD_PIXELS; ++i) {
        const int r = tap / FILTER_W, s = tap - r * FILTER_W;
        const int h = source_of(FAST_CHANNEL ? row : row + i, r, g.pad_h, g.stride_h, g.dilation_h, g.src_h);
        const int w = source_of(FAST_CHANNEL ? col + i : col, s, g.pad_w, g.stride_w, g.dilation_w, g.src_w);
        load_channels(src + PIXEL(h, w, g.src_w, g.groups * g.reduced) + (i64)c * step, step, h >= 0 && w >= 0, v[i]);
      }
      multiply_outputs(filters + (tap * g.reduced + c) * OUTPUTS * g.units, g.units, v, 0, 1, acc);
    }
  }
}
#endif

KERNEL THREADS_PER_BLOCK(THREADS)
    grouped(GLOBAL const in_t* RESTRICT src, GLOBAL const in_t* RESTRICT w, GLOBAL out_t* dst, const GroupedShape g,
            const int pixel_tiles, const float alpha, const float beta) {
  SHARED sum_t filters[LOCAL_FLOATS] __attribute__((aligned(16)));
  const int first_unit = BLOCK(1) * g.units, slots = THREADS / g.units;
  copy_filters(w, g, first_unit, filters);
  BARRIER();
#if FAST_CHANNEL
  const int slot = THREAD(0) / g.units, unit = THREAD(0) - slot * g.units;
#else
  const int unit = THREAD(0) / slots, slot = THREAD(0) - unit * slots;
#endif
  const int channel = (first_unit + unit) * OUTPUTS, channels = g.groups * g.outputs;
  if (slot >= slots || unit >= g.units || channel >= channels) return;
  const int rows = FAST_CHANNEL ? g.dst_h : CEIL_DIV(g.dst_h, THREAD_PIXELS);
  const int cols = FAST_CHANNEL ? CEIL_DIV(g.dst_w, THREAD_PIXELS) : g.dst_w;
  const int group = channel / g.outputs, src_step = CHANNEL_STEP(g.src_h, g.src_w);
  const int step = CHANNEL_STEP(g.dst_h, g.dst_w);
  for (int i = BLOCK(0) * slots + slot; i < pixel_tiles; i += BLOCKS(0) * slots) {
    const int image = i / (rows * cols), rest = i - image * rows * cols;
    const int row = rest / cols * (FAST_CHANNEL ? 1 : THREAD_PIXELS),
              col = rest % cols * (FAST_CHANNEL ? THREAD_PIXELS : 1);
    sum_t acc[THREAD_PIXELS][OUTPUTS];
    UNROLL
    for (int j = 0; j < THREAD_PIXELS; ++j) {
      UNROLL
      for (int k = 0; k < OUTPUTS; ++k) acc[j][k] = 0;
    }
    gather(src + (i64)image * g.groups * g.reduced * g.src_h * g.src_w + (i64)group * g.reduced * src_step,
           filters + unit * 4, g, row, col, acc);
    GLOBAL out_t* to = dst + (i64)image * channels * g.dst_h * g.dst_w + (i64)channel * step;
    UNROLL
    for (int j = 0; j < THREAD_PIXELS; ++j) {
      const int h = FAST_CHANNEL ? row : row + j, v = FAST_CHANNEL ? col + j : col;
      if (h >= g.dst_h || v >= g.dst_w) continue;
      GLOBAL out_t* at = to + PIXEL(h, v, g.dst_w, channels);
#if FAST_CHANNEL
      UNROLL
      for (int k = 0; k < OUTPUTS; k += 4) store4_scaled(at + k, acc[j] + k, alpha, beta);
#else
      UNROLL
      for (int k = 0; k < OUTPUTS; ++k) store_scaled(at + (i64)k * step, acc[j][k], alpha, beta);
#endif
    }
  }
}
