// Backward weights of grouped convolution with few channels per group. A thread accumulates 4 x 4 channels at a line of
// taps over THREAD_PIXELS adjacent pixels (along a row for NHWC, down a column for NCHW). A block processes every
// BLOCKS(0)-th group of pixels and writes its partial sums, which add_partials reduces. A unit of work is 4 channels of
// dy, 4 of x and one line of taps.
// Options: IN, OUT, FAST_CHANNEL (1 for NHWC), FILTER_H, FILTER_W, STRIDE (1, 2; 0 for any stride and dilation),
// THREAD_PIXELS.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"
#include "kernels/gpu/portable/partials.h"

#define THREADS 256
#define TAPS (FILTER_H * FILTER_W)

#if FAST_CHANNEL
#define ALONG FILTER_W  // taps along the window
#define ACROSS FILTER_H
#define PIXEL(h, w, width, channels) (((h) * (width) + (w)) * (channels))
#define CHANNEL_STEP(height, width) 1
#else
#define ALONG FILTER_H
#define ACROSS FILTER_W
#define PIXEL(h, w, width, channels) ((h) * (width) + (w))
#define CHANNEL_STEP(height, width) ((height) * (width))
#endif
#if STRIDE == 0
#define STEP_H g.stride_h
#define STEP_W g.stride_w
#define GAP_H g.dilation_h
#define GAP_W g.dilation_w
#define WINDOW 1
#else
#define STEP_H STRIDE
#define STEP_W STRIDE
#define GAP_H 1
#define GAP_W 1
#define WINDOW ((THREAD_PIXELS - 1) * STRIDE + ALONG)
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

INLINE void multiply_channels(const sum_t* y, const sum_t* x, sum_t (*acc)[4]) {
  UNROLL
  for (int k = 0; k < 4; ++k) {
    UNROLL
    for (int c = 0; c < 4; ++c) acc[k][c] = MULTIPLY_ADD(y[k], x[c], acc[k][c]);
  }
}

/// Accumulates the thread's pixels from (row, col) on; x and dy are at the unit's channels of an image.
INLINE void add_pixels_of_thread(GLOBAL const in_t* x, GLOBAL const in_t* dy, GroupedShape g, int row, int col,
                                 int across, sum_t (*acc)[4][4]) {
  const int x_step = CHANNEL_STEP(g.src_h, g.src_w), y_step = CHANNEL_STEP(g.dst_h, g.dst_w);
  sum_t y[THREAD_PIXELS][4];
  UNROLL
  for (int i = 0; i < THREAD_PIXELS; ++i) {
    const int h = FAST_CHANNEL ? row : row + i, w = FAST_CHANNEL ? col + i : col;
    load_channels(dy + PIXEL(h, w, g.dst_w, g.groups * g.outputs), y_step, h < g.dst_h && w < g.dst_w, y[i]);
  }
  const int h0 = row * STEP_H - g.pad_h + (FAST_CHANNEL ? across * GAP_H : 0);
  const int w0 = col * STEP_W - g.pad_w + (FAST_CHANNEL ? 0 : across * GAP_W);
#if STRIDE != 0
  UNROLL
  for (int i = 0; i < WINDOW; ++i) {
    const int h = FAST_CHANNEL ? h0 : h0 + i, w = FAST_CHANNEL ? w0 + i : w0;
    sum_t v[4];
    load_channels(x + PIXEL(h, w, g.src_w, g.groups * g.reduced), x_step,
                  (u32)h < (u32)g.src_h && (u32)w < (u32)g.src_w, v);
    UNROLL
    for (int j = 0; j < THREAD_PIXELS; ++j) {
      const int b = i - j * STRIDE;
      if (b >= 0 && b < ALONG) multiply_channels(y[j], v, acc[b]);
    }
  }
#else
  UNROLL
  for (int j = 0; j < THREAD_PIXELS; ++j) {
    UNROLL
    for (int b = 0; b < ALONG; ++b) {
      const int h = FAST_CHANNEL ? h0 : h0 + j * STEP_H + b * GAP_H;
      const int w = FAST_CHANNEL ? w0 + j * STEP_W + b * GAP_W : w0;
      sum_t v[4];
      load_channels(x + PIXEL(h, w, g.src_w, g.groups * g.reduced), x_step,
                    (u32)h < (u32)g.src_h && (u32)w < (u32)g.src_w, v);
      multiply_channels(y[j], v, acc[b]);
    }
  }
#endif
}

KERNEL THREADS_PER_BLOCK(THREADS) grouped_weights(GLOBAL const in_t* RESTRICT x, GLOBAL const in_t* RESTRICT dy,
                                                  GLOBAL sum_t* partials, const GroupedShape g, const int pixel_tiles) {
  SHARED sum_t sums[THREADS * 16];
  const int slots = THREADS / g.units, quads_c = g.reduced / 4, quads_k = g.outputs / 4;
#if FAST_CHANNEL
  const int slot = THREAD(0) / g.units, block_unit = THREAD(0) - slot * g.units;
#else
  const int block_unit = THREAD(0) / slots, slot = THREAD(0) - block_unit * slots;
#endif
  // Unit order, fastest first: channels of x, channels of dy, group, line of taps.
  const int unit = BLOCK(1) * g.units + block_unit, unit_count = g.groups * quads_k * quads_c * ACROSS;
  const int quad_c = unit % quads_c, quad_k = unit / quads_c % quads_k, group = unit / (quads_c * quads_k) % g.groups;
  const int across = unit / (quads_c * quads_k * g.groups);
  const int active = slot < slots && block_unit < g.units && unit < unit_count;
  const int rows = FAST_CHANNEL ? g.dst_h : CEIL_DIV(g.dst_h, THREAD_PIXELS);
  const int cols = FAST_CHANNEL ? CEIL_DIV(g.dst_w, THREAD_PIXELS) : g.dst_w;
  const i64 x_image = (i64)g.groups * g.reduced * g.src_h * g.src_w;
  const i64 y_image = (i64)g.groups * g.outputs * g.dst_h * g.dst_w;
  x += (i64)(group * g.reduced + quad_c * 4) * CHANNEL_STEP(g.src_h, g.src_w);
  dy += (i64)(group * g.outputs + quad_k * 4) * CHANNEL_STEP(g.dst_h, g.dst_w);
  GLOBAL sum_t* results = (GLOBAL sum_t*)align16(partials);
  sum_t acc[ALONG][4][4];
  UNROLL
  for (int b = 0; b < ALONG; ++b) {
    UNROLL
    for (int i = 0; i < 16; ++i) acc[b][i / 4][i % 4] = 0;
  }
  if (active)
    for (int i = BLOCK(0) * slots + slot; i < pixel_tiles; i += BLOCKS(0) * slots) {
      const int image = i / (rows * cols), rest = i - image * rows * cols;
      const int row = rest / cols * (FAST_CHANNEL ? 1 : THREAD_PIXELS),
                col = rest % cols * (FAST_CHANNEL ? THREAD_PIXELS : 1);
      add_pixels_of_thread(x + image * x_image, dy + image * y_image, g, row, col, across, acc);
    }
  // One tap at a time: adds up the slots in order, 16 values per unit.
  UNROLL
  for (int b = 0; b < ALONG; ++b) {
    BARRIER();
    if (slot < slots && block_unit < g.units) {
      UNROLL
      for (int i = 0; i < 16; ++i) sums[(slot * g.units + block_unit) * 16 + i] = acc[b][i / 4][i % 4];
    }
    BARRIER();
    for (int v = THREAD(0); v < g.units * 16; v += THREADS) {
      const int u = BLOCK(1) * g.units + v / 16;
      if (u >= unit_count) continue;
      sum_t sum = 0;
      for (int s = 0; s < slots; ++s) sum += sums[s * g.units * 16 + v];
      const int c = u % quads_c * 4 + v % 4, k = u / quads_c % quads_k * 4 + v % 16 / 4;
      const int group_of_unit = u / (quads_c * quads_k) % g.groups;
      const int line = u / (quads_c * quads_k * g.groups);
      const int tap = FAST_CHANNEL ? line * FILTER_W + b : b * FILTER_W + line;
      const i64 filter = ((i64)BLOCK(0) * g.groups * g.outputs + group_of_unit * g.outputs + k) * TAPS * g.reduced;
      results[filter + (FAST_CHANNEL ? tap * g.reduced + c : c * TAPS + tap)] = sum;
    }
  }
}
