// Depthwise convolution with stride 1, filters of any size, channels innermost, any other strides; three directions.
// A thread has VEC neighbouring channels of COLS results of a row, `dilation` columns apart, and CHUNK taps of a filter
// row in registers; the vectors of src pass once for each chunk of taps. Threads of a block have neighbouring channels,
// then neighbouring columns, so that windows overlap in the cache.
// Options: IN, OUT, DIRECTION (0, 1, 2; src and filter are x and w; dy and the rotated w; x and dy), FILTER_W, CHUNK,
// COLS, VEC (1 or 4); forward and backward data: HAS_BIAS, HAS_SCALE, MODE.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"
#include "kernels/gpu/portable/depthwise.h"
#include "kernels/gpu/portable/partials.h"

#define WINDOW (COLS + CHUNK - 1)
#define CHUNKS CEIL_DIV(FILTER_W, CHUNK)
// Taps of a row in local memory at a time.
#define STAGED (MIN(CEIL_DIV(32, CHUNK), CHUNKS) * CHUNK)

/// A row of results and its first column; the thread's others are `dilation` apart.
typedef struct {
  int image, row, col;
} Run;

INLINE Run run_at(int index, int units_w, int gap, int rows) {
  Run t;
  const int line = index / units_w, unit = index - line * units_w, block = gap == 1 ? unit : unit / gap;
  t.image = line / rows;
  t.row = line - t.image * rows;
  t.col = block * COLS * gap + unit - block * gap;
  return t;
}

#if DIRECTION != 2
#include "kernels/gpu/portable/epilogue.h"

INLINE void store_results(GLOBAL out_t* dst, CHANNEL_PARAMETERS, DepthwiseWindowShape d, Run t, int c,
                          sum_t (*acc)[VEC], Scalars scalars) {
  GLOBAL out_t* to = dst + t.image * d.dst_image + (t.row * d.dst_row + t.col * d.dst_col) + c;
  ChannelTerms b[VEC];
  UNROLL
  for (int u = 0; u < VEC; ++u) b[u] = CHANNEL_TERMS(c + u);
  UNROLL
  for (int q = 0; q < COLS; ++q)
    if (t.col + q * d.dilation_w < d.dst_w) {
      GLOBAL out_t* pixel = to + (i64)q * d.dilation_w * d.dst_col;
      UNROLL
      for (int u = 0; u < VEC; ++u) acc[q][u] = finished(acc[q][u], pixel + u, b[u], scalars);
      STORE_VEC(pixel, acc[q]);
    }
}

KERNEL THREADS_PER_BLOCK(THREADS)
    depthwise_window_channels(GLOBAL const in_t* RESTRICT src, GLOBAL const in_t* RESTRICT w, GLOBAL out_t* dst,
                              CHANNEL_PARAMETERS, const DepthwiseWindowShape d, const Scalars scalars) {
  SHARED sum_t taps[STAGED * MAX_CHANNELS] __attribute__((aligned(16)));
  const int blocks_c = CEIL_DIV(d.channels, d.lanes * VEC), group = BLOCK(0) / blocks_c;
  const int c0 = (BLOCK(0) - group * blocks_c) * d.lanes * VEC, block_channels = MIN(d.lanes * VEC, d.channels - c0);
  const int slots = THREADS / d.lanes, slot = THREAD(0) / d.lanes, lane = THREAD(0) - slot * d.lanes;
  const int units_w = CEIL_DIV(d.dst_w, COLS * d.dilation_w) * d.dilation_w, index = group * slots + slot;
  const Run t = run_at(index, units_w, d.dilation_w, d.dst_h);
  const int active = slot < slots && lane * VEC < block_channels && t.image < d.images;
  const int w0 = t.col - d.pad_w, gap = d.dilation_w;
  GLOBAL const in_t* from = src + (active ? t.image * d.src_image : 0) + c0 + lane * VEC;
  sum_t acc[COLS][VEC];
  UNROLL
  for (int q = 0; q < COLS; ++q) {
    UNROLL
    for (int u = 0; u < VEC; ++u) acc[q][u] = 0;
  }
  const int stages = CEIL_DIV(FILTER_W, STAGED);
  NO_UNROLL
  for (int stage = 0; stage < d.filter_h * stages; ++stage) {
    const int r = stage / stages, first = (stage - r * stages) * STAGED;
    const int staged = MIN(STAGED, FILTER_W - first);
    BARRIER();
    for (int i = THREAD(0); i < block_channels * staged; i += THREADS) {
      const int c = i / staged, s = i - c * staged;
      const i64 filter = (i64)(c0 + c) * d.filter_h * FILTER_W;
#if DIRECTION == 1
      const int tap = (d.filter_h - 1 - r) * FILTER_W + FILTER_W - 1 - first - s;
#else
      const int tap = r * FILTER_W + first + s;
#endif
      taps[FILTER_AT(s, 0, c / VEC, d.lanes) + c % VEC] = LOAD(IN, w, filter + tap);
    }
    BARRIER();
    const int h = t.row - d.pad_h + r * d.dilation_h;
    if (!active || (u32)h >= (u32)d.src_h) continue;
    GLOBAL const in_t* row = from + (i64)h * d.src_row;
    NO_UNROLL
    for (int s0 = 0; s0 < staged; s0 += CHUNK) {
      sum_t tap[CHUNK][VEC];
      UNROLL
      for (int s = 0; s < CHUNK; ++s) LOAD_TAP(taps + LANE_AT(lane), s0 + s, d.lanes, tap[s]);
      UNROLL
      for (int j = 0; j < WINDOW; ++j) {
        const int v0 = w0 + (first + s0 + j) * gap;
        sum_t v[VEC];
        load_or_zero(row + (i64)v0 * d.src_col, (u32)v0 < (u32)d.src_w, v);
        UNROLL
        for (int s = 0; s < CHUNK; ++s)
          if (j >= s && j - s < COLS && (CHUNKS == 1 || s0 + s < staged)) multiply_add(v, tap[s], acc[j - s]);
      }
    }
  }
  if (active) store_results(dst, CHANNEL_ARGUMENTS, d, t, c0 + lane * VEC, acc, scalars);
}

#else

/// A block sums CHUNK taps of a filter row for `lanes` vectors of channels (a power of two) over every `parts`-th group
/// of runs. partials[part][channel][tap].
KERNEL THREADS_PER_BLOCK(THREADS)
    depthwise_window_channels_weights(GLOBAL const in_t* RESTRICT x, GLOBAL const in_t* RESTRICT dy,
                                      GLOBAL sum_t* partials, const DepthwiseWindowShape d, const int parts) {
  SHARED sum_t sums[THREADS * VEC];
  const int chunks = d.filter_h * CHUNKS, blocks_c = CEIL_DIV(d.channels, d.lanes * VEC);
  const int rest = BLOCK(0) / chunks, chunk = BLOCK(0) - rest * chunks, part = rest / blocks_c;
  const int width = d.lanes * VEC, c0 = (rest - part * blocks_c) * width;
  const int r = chunk / CHUNKS, s0 = (chunk - r * CHUNKS) * CHUNK, gap = d.dilation_w;
  const int slots = THREADS / d.lanes, slot = THREAD(0) / d.lanes, c = c0 + (THREAD(0) - slot * d.lanes) * VEC;
  const int units_w = CEIL_DIV(d.dst_w, COLS * gap) * gap, runs = d.images * d.dst_h * units_w;
  sum_t acc[CHUNK][VEC];
  UNROLL
  for (int s = 0; s < CHUNK; ++s) {
    UNROLL
    for (int u = 0; u < VEC; ++u) acc[s][u] = 0;
  }
  if (c < d.channels)
    for (int i = part * slots + slot; i < runs; i += parts * slots) {
      const Run t = run_at(i, units_w, gap, d.dst_h);
      const int h = t.row - d.pad_h + r * d.dilation_h, w0 = t.col - d.pad_w + s0 * gap;
      if ((u32)h >= (u32)d.src_h) continue;
      GLOBAL const in_t* row = x + t.image * d.src_image + (i64)h * d.src_row + c;
      GLOBAL const in_t* dy_row = dy + t.image * d.dst_image + (i64)t.row * d.dst_row + c;
      const int count = CEIL_DIV(d.dst_w - t.col, gap);
      sum_t g[COLS][VEC];
      UNROLL
      for (int q = 0; q < COLS; ++q) load_or_zero(dy_row + (i64)(t.col + q * gap) * d.dst_col, q < count, g[q]);
      UNROLL
      for (int j = 0; j < WINDOW; ++j) {
        sum_t v[VEC];
        load_or_zero(row + (i64)(w0 + j * gap) * d.src_col, (u32)(w0 + j * gap) < (u32)d.src_w, v);
        UNROLL
        for (int s = 0; s < CHUNK; ++s)
          if (j >= s && j - s < COLS && j - s < count) multiply_add(v, g[(j - s + WINDOW) % WINDOW % COLS], acc[s]);
      }
    }
  GLOBAL sum_t* results = (GLOBAL sum_t*)align16(partials);
  UNROLL
  for (int s = 0; s < CHUNK; ++s) {
    BARRIER();
    UNROLL
    for (int u = 0; u < VEC; ++u) sums[slot * width + c - c0 + u] = acc[s][u];
    add_slots(sums, width, slots);
    for (int i = THREAD(0); i < width; i += THREADS)
      if (c0 + i < d.channels && s0 + s < FILTER_W)
        results[(((i64)part * d.channels + c0 + i) * d.filter_h + r) * FILTER_W + s0 + s] = sums[i];
  }
}
#endif
