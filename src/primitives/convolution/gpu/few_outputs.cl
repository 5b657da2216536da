// Forward convolution of planes (NCHW) to up to 8 channels. A thread has PIXELS pixels down a column and all channels
// of the result, of every SPLITS-th channel of x; the sums of these parts are added in local memory, which has the
// filters before. Options: IN, OUT, FILTER_H, FILTER_W, STRIDE_H, OUTPUTS (the channels rounded up to a power of two),
// PIXELS, LOCAL_FLOATS.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"

#define THREADS 256
#define LANES 32
#define SPLITS (THREADS / LANES)
#define TAPS (FILTER_H * FILTER_W)
#define WINDOW ((PIXELS - 1) * STRIDE_H + FILTER_H)

/// acc += the convolution of one channel; (h, w) is the first element of the window, `filters` of [tap][output].
INLINE void add_channel(GLOBAL const in_t* plane, LOCAL const sum_t* filters, const GroupedShape* g, int h, int w,
                        sum_t (*acc)[OUTPUTS]) {
  UNROLL
  for (int s = 0; s < FILTER_W; ++s) {
    sum_t v[WINDOW];
    UNROLL
    for (int i = 0; i < WINDOW; ++i) {
      const int inside = (u32)(h + i) < (u32)g->src_h && (u32)(w + s) < (u32)g->src_w;
      v[i] = inside ? LOAD(IN, plane, (h + i) * g->src_w + w + s) : 0;
    }
    UNROLL
    for (int r = 0; r < FILTER_H; ++r) {
      sum_t taps[OUTPUTS];
      UNROLL
      for (int k = 0; k < OUTPUTS; ++k) taps[k] = filters[(r * FILTER_W + s) * OUTPUTS + k];
      UNROLL
      for (int i = 0; i < PIXELS; ++i) {
        UNROLL
        for (int k = 0; k < OUTPUTS; ++k) acc[i][k] = MULTIPLY_ADD(v[i * STRIDE_H + r], taps[k], acc[i][k]);
      }
    }
  }
}

/// `tiles`: of PIXELS pixels, of all images.
KERNEL THREADS_PER_BLOCK(THREADS)
    few_outputs(GLOBAL const in_t* RESTRICT src, GLOBAL const in_t* RESTRICT w, GLOBAL out_t* dst, const GroupedShape g,
                const int tiles, const float alpha, const float beta) {
  SHARED sum_t memory[LOCAL_FLOATS] __attribute__((aligned(16)));
  const int lane = THREAD(0) % LANES, split = THREAD(0) / LANES, tile = BLOCK(0) * LANES + lane;
  const int rows = CEIL_DIV(g.dst_h, PIXELS), image = tile / (rows * g.dst_w), rest = tile - image * rows * g.dst_w;
  const int row = rest / g.dst_w * PIXELS, col = rest % g.dst_w;
  for (int i = THREAD(0); i < g.reduced * TAPS * OUTPUTS; i += THREADS) {
    const int k = i % OUTPUTS;
    memory[i] = k < g.outputs ? LOAD(IN, w, (i64)k * g.reduced * TAPS + i / OUTPUTS) : 0;
  }
  BARRIER();
  sum_t acc[PIXELS][OUTPUTS];
  UNROLL
  for (int i = 0; i < PIXELS; ++i) {
    UNROLL
    for (int k = 0; k < OUTPUTS; ++k) acc[i][k] = 0;
  }
  for (int c = split; c < g.reduced && tile < tiles; c += SPLITS)
    add_channel(src + ((i64)image * g.reduced + c) * g.src_h * g.src_w, memory + c * TAPS * OUTPUTS, &g,
                row * STRIDE_H - g.pad_h, col * g.stride_w - g.pad_w, acc);
  BARRIER();
  UNROLL
  for (int i = 0; i < PIXELS; ++i) {
    UNROLL
    for (int k = 0; k < OUTPUTS; ++k) memory[((i * OUTPUTS + k) * SPLITS + split) * LANES + lane] = acc[i][k];
  }
  BARRIER();
  for (int e = split; e < PIXELS * OUTPUTS; e += SPLITS) {
    const int h = row + e / OUTPUTS, k = e % OUTPUTS;
    sum_t sum = 0;
    if (tile >= tiles || h >= g.dst_h || k >= g.outputs) continue;
    UNROLL
    for (int s = 0; s < SPLITS; ++s) sum += memory[(e * SPLITS + s) * LANES + lane];
    store_scaled(dst + (((i64)image * g.outputs + k) * g.dst_h + h) * g.dst_w + col, sum, alpha, beta);
  }
}
