// Implicit GEMM on SIMT arithmetic: one register-tiled, double-buffered matrix product for the three directions.
// Forward and backward data: M are pixels, N channels, K taps x channels; strided backward data is one dense product
// per phase of the output. Backward weights: M are output channels, N the elements of a filter, K pixels.
// Options: IN, OUT, DIRECTION (0, 1, 2), FAST_N (1 for NHWC), QUADS (1 for NHWC with aligned quads of channels), FLAT
// (1: taps and channels are one index, for few channels), FAST_CHANNEL, TILE_M/N/K, THREAD_M/N, RESIDENT (blocks per
// multiprocessor).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"
#include "kernels/gpu/portable/tile.h"
#include "kernels/gpu/portable/partials.h"

INLINE void store_partial4(GLOBAL sum_t* p, const sum_t* v) {
  u32x4 u;
  u.x = BITS_OF_SUM(v[0]);
  u.y = BITS_OF_SUM(v[1]);
  u.z = BITS_OF_SUM(v[2]);
  u.w = BITS_OF_SUM(v[3]);
  *(GLOBAL u32x4*)p = u;
}

/// Stores four neighbours of the result at offset `at`, or of the partial sums if K is split.
INLINE void store_result4(GLOBAL out_t* dst, GLOBAL sum_t* partial, i64 at, const sum_t* v, float alpha, float beta) {
  if (partial)
    store_partial4(partial + at, v);
  else
    store4_scaled(dst + at, v, alpha, beta);
}

INLINE void store_result(GLOBAL out_t* dst, GLOBAL sum_t* partial, i64 at, sum_t v, float alpha, float beta) {
  if (partial)
    partial[at] = v;
  else
    store_scaled(dst + at, v, alpha, beta);
}

#define LOADS_A (TILE_M * TILE_K / THREADS)
#define LOADS_B (TILE_N * TILE_K / THREADS)

#if DIRECTION != 2
/// One axis of a phase: output position phase + j * out_step reads source positions j * in_step + base + i * delta
/// with taps first + i * tap_step.
typedef struct {
  int phase, count, out_step, in_step, base, delta, first, taps, tap_step;
} Axis;

INLINE Axis make_axis(int phase, int size, int filter, int pad, int stride, int dilation, int tap_step) {
  Axis a;
  a.phase = phase;
#if DIRECTION == 0
  a.count = size;
  a.out_step = 1;
  a.in_step = stride;
  a.base = -pad;
  a.delta = dilation;
  a.first = 0;
  a.taps = filter;
  a.tap_step = 1;
#else
  a.count = (size - phase + stride - 1) / stride;
  a.out_step = stride;
  a.in_step = 1;
  a.tap_step = tap_step;
  a.delta = -(dilation * tap_step / stride);
  a.first = 0;
  while (a.first < tap_step && (phase + pad - a.first * dilation) % stride != 0) ++a.first;
  a.taps = a.first < tap_step ? (filter - a.first + tap_step - 1) / tap_step : 0;
  a.base = (phase + pad - a.first * dilation) / stride;
#endif
  return a;
}

typedef struct {
  int image, h, w, valid;  // position along the axes of the phase
} Pixel;

INLINE Pixel pixel_at(int m, Axis rows, Axis cols, int images) {
  Pixel p;
  const int per_image = rows.count * cols.count;
  p.image = m / per_image;
  const int rest = m - p.image * per_image;
  p.h = rest / cols.count;
  p.w = rest - p.h * cols.count;
  p.valid = p.image < images;
  return p;
}

/// `weights` and `partials` are both the workspace: packed weights, then at element `partials_at` the splits' sums. src
/// and dst begin at an element offset, since they may be in the workspace, too.
KERNEL THREADS_PER_BLOCK_OF(THREADS, RESIDENT)
    implicit_gemm(GLOBAL const in_t* RESTRICT src, GLOBAL const sum_t* RESTRICT weights, GLOBAL out_t* dst,
                  GLOBAL sum_t* partials, const ProductShape s, const Divider by_channels, const Divider by_filter_w,
                  const i64 partials_at, const i64 partial_size, const i64 src_at, const i64 dst_at, const float alpha,
                  const float beta) {
  SHARED sum_t a_tile[2][TILE_K * PITCH_M] __attribute__((aligned(16)));
  SHARED sum_t b_tile[2][TILE_K * PITCH_N] __attribute__((aligned(16)));
  const int thread = THREAD(0), group = BLOCK(1), split = BLOCK(2);
  const int tiles_n = s.outputs_padded / TILE_N;
  const int n0 = BLOCK(0) % tiles_n * TILE_N;
  int block = BLOCK(0) / tiles_n;
#if DIRECTION == 1
  const int phases = s.stride_h * s.stride_w, phase = block % phases;
  block /= phases;
#else
  const int phase = 0;
#endif
  const Axis rows = make_axis(phase / s.stride_w, s.dst_h, s.filter_h, s.pad_h, s.stride_h, s.dilation_h, s.tap_step_h);
  const Axis cols = make_axis(phase % s.stride_w, s.dst_w, s.filter_w, s.pad_w, s.stride_w, s.dilation_w, s.tap_step_w);
  const int m0 = block * TILE_M;
  if (m0 >= s.images * rows.count * cols.count) return;

    // Steps of TILE_K along K of this split.
#if FLAT
  const int step_count = s.reduced_padded / TILE_K;
#else
  const int blocks = s.reduced_padded / TILE_K, step_count = rows.taps * cols.taps * blocks;
#endif
  const int first_step = (int)((i64)step_count * split / s.splits),
            last_step = (int)((i64)step_count * (split + 1) / s.splits);
#if FLAT
  int channel = first_step * TILE_K;
#else
  int channel = first_step % blocks * TILE_K, tap_h = first_step / blocks / MAX(cols.taps, 1);
  int tap_w = first_step / blocks - tap_h * cols.taps;
#endif

  // The thread's loads: rows k of A for one pixel, or quads of channels for A_COUNT pixels; quads of B.
  src += src_at + (i64)group * s.reduced * s.src_channel;
  dst += dst_at;
#if QUADS
  const int a_k = thread % (TILE_K / 4) * 4, a_m = thread / (TILE_K / 4);
#define A_COUNT (LOADS_A / 4)
#define A_STEP (THREADS / (TILE_K / 4))
#else
  const int a_m = thread % TILE_M, a_k = thread / TILE_M;
#define A_COUNT 1
#define A_STEP 0
#define A_K_STEP (THREADS / TILE_M)
#endif
  GLOBAL const in_t* a_image[A_COUNT];
  int a_h[A_COUNT], a_w[A_COUNT];
  UNROLL
  for (int i = 0; i < A_COUNT; ++i) {
    const Pixel p = pixel_at(m0 + a_m + i * A_STEP, rows, cols, s.images);
    a_image[i] = src + (p.valid ? p.image * s.src_image : 0);
    a_h[i] = p.valid ? p.h * rows.in_step + rows.base : -(1 << 30);
    a_w[i] = p.w * cols.in_step + cols.base;
  }
  const int b_n = thread % (TILE_N / 4) * 4, b_k = thread / (TILE_N / 4);
  const int taps = s.filter_h * s.filter_w;
  weights = align16(weights) + (i64)group * (FLAT ? 1 : taps) * s.reduced_padded * s.outputs_padded + n0 + b_n;

  sum_t a_regs[LOADS_A];
  u32x4 b_regs[LOADS_B / 4];
  sum_t acc[THREAD_M][THREAD_N];
  clear_tile(acc);
  const int tile_m = THREAD_TILE_M(thread) * 4, tile_n = THREAD_TILE_N(thread) * 4;

  NO_UNROLL
  for (int step = first_step; step <= last_step; ++step) {
    if (step < last_step) {  // load this step's tiles into registers
#if FLAT
      UNROLL
      for (int i = 0; i < LOADS_A; ++i) {
        const int k = channel + a_k + i * A_K_STEP, tap = divide(k, by_channels), c = k - tap * s.reduced;
        const int r = divide(tap, by_filter_w), h = a_h[0] + r * rows.delta;
        const int w = a_w[0] + (tap - r * s.filter_w) * cols.delta;
        const int inside = (u32)h < (u32)s.src_h && (u32)w < (u32)s.src_w && tap < taps;
        a_regs[i] = inside ? LOAD(IN, a_image[0], h * s.src_row + w * s.src_col + c * s.src_channel) : 0;
      }
      GLOBAL const sum_t* b = weights + (i64)(channel + b_k) * s.outputs_padded;
      channel += TILE_K;
#else
      UNROLL
      for (int i = 0; i < A_COUNT; ++i) {
        const int h = a_h[i] + tap_h * rows.delta, w = a_w[i] + tap_w * cols.delta;
        const int inside = (u32)h < (u32)s.src_h && (u32)w < (u32)s.src_w;
        GLOBAL const in_t* p = a_image[i] + (h * s.src_row + w * s.src_col + (channel + a_k) * s.src_channel);
#if QUADS
        if (inside && channel + a_k < s.reduced)
          load4(p, a_regs + i * 4);
        else {
          UNROLL
          for (int j = 0; j < 4; ++j) a_regs[i * 4 + j] = 0;
        }
#else
        UNROLL
        for (int j = 0; j < LOADS_A; ++j)
          a_regs[j] =
              inside && channel + a_k + j * A_K_STEP < s.reduced ? LOAD(IN, p, j * A_K_STEP * s.src_channel) : 0;
#endif
      }
      const int tap = (rows.first + tap_h * rows.tap_step) * s.filter_w + cols.first + tap_w * cols.tap_step;
      GLOBAL const sum_t* b = weights + (i64)(tap * s.reduced_padded + channel + b_k) * s.outputs_padded;
      channel += TILE_K;
      if (channel == s.reduced_padded) {
        channel = 0;
        if (++tap_w == cols.taps) {
          tap_w = 0;
          ++tap_h;
        }
      }
#endif
      UNROLL
      for (int i = 0; i < LOADS_B / 4; ++i)
        b_regs[i] = *(GLOBAL const u32x4*)(b + i * (THREADS / (TILE_N / 4)) * s.outputs_padded);
    }
    if (step > first_step) multiply_tiles(a_tile[(step - 1) & 1] + tile_m, b_tile[(step - 1) & 1] + tile_n, acc);
    if (step < last_step) {
      LOCAL sum_t* a = a_tile[step & 1];
#if QUADS
      UNROLL
      for (int i = 0; i < A_COUNT; ++i) {
        UNROLL
        for (int j = 0; j < 4; ++j) a[(a_k + j) * PITCH_M + a_m + i * A_STEP] = a_regs[i * 4 + j];
      }
#else
      UNROLL
      for (int j = 0; j < LOADS_A; ++j) a[(a_k + j * A_K_STEP) * PITCH_M + a_m] = a_regs[j];
#endif
      UNROLL
      for (int i = 0; i < LOADS_B / 4; ++i)
        *(LOCAL u32x4*)(b_tile[step & 1] + (b_k + i * (THREADS / (TILE_N / 4))) * PITCH_N + b_n) = b_regs[i];
    }
    BARRIER();
  }

  // Stores quads along pixels (NCHW) or along channels (NHWC).
  GLOBAL sum_t* partial = s.splits > 1 ? (GLOBAL sum_t*)align16(partials) + partials_at + split * partial_size : 0;
  UNROLL
  for (int i = 0; i < QUADS_M; ++i) {
    UNROLL
    for (int u = 0; u < 4; ++u) {
      const Pixel p = pixel_at(m0 + tile_m + i * QUAD_STEP_M + u, rows, cols, s.images);
      const i64 at = p.image * s.dst_image + (i64)group * s.outputs * s.dst_channel +
                     ((p.h * rows.out_step + rows.phase) * s.dst_row + (p.w * cols.out_step + cols.phase) * s.dst_col);
      UNROLL
      for (int j = 0; j < THREAD_N; ++j) {
        const int n = n0 + tile_n + j / 4 * QUAD_STEP_N + j % 4;
        if (!p.valid || n >= s.outputs) continue;
#if FAST_N
        if (s.store_quads) {
          if (j % 4 == 0) store_result4(dst, partial, at + n, acc[i * 4 + u] + j, alpha, beta);
          continue;
        }
#else
        if (s.store_quads) {
          if (u == 0) {
            sum_t quad[4] = {acc[i * 4][j], acc[i * 4 + 1][j], acc[i * 4 + 2][j], acc[i * 4 + 3][j]};
            store_result4(dst, partial, at + (i64)n * s.dst_channel, quad, alpha, beta);
          }
          continue;
        }
#endif
        store_result(dst, partial, at + (i64)n * s.dst_channel, acc[i * 4 + u][j], alpha, beta);
      }
    }
  }
}

/// Packs weights as [group][row][output], row = tap * reduced_padded + channel (FLAT: tap * channels + channel), padded
/// with zeros. group_stride to col_stride are strides of the filter tensor.
KERNEL THREADS_PER_BLOCK(256)
    pack_weights(GLOBAL const in_t* RESTRICT w, GLOBAL sum_t* packed, const int groups, const int taps,
                 const int filter_w, const int reduced, const int outputs, const int rows, const int outputs_padded,
                 const i64 group_stride, const i64 reduced_stride, const i64 output_stride, const i64 row_stride,
                 const i64 col_stride, const i64 w_at) {
  const i64 i = (i64)BLOCK(0) * 256 + THREAD(0);
  const int per_tap = FLAT ? reduced : rows / taps;
  const int n = (int)(i % outputs_padded), row = (int)(i / outputs_padded % rows);
  const int group = (int)(i / outputs_padded / rows);
  if (group >= groups) return;
  const int tap = row / per_tap, c = row - tap * per_tap;
  const int inside = n < outputs && c < reduced && tap < taps;
  const i64 from = w_at + group * group_stride + c * reduced_stride + n * output_stride + tap / filter_w * row_stride +
                   tap % filter_w * col_stride;
  ((GLOBAL sum_t*)align16(packed))[i] = inside ? LOAD(IN, w, from) : 0;
}

#else

KERNEL THREADS_PER_BLOCK_OF(THREADS, RESIDENT)
    implicit_gemm_weights(GLOBAL const in_t* RESTRICT x, GLOBAL const in_t* RESTRICT dy, GLOBAL out_t* dw,
                          GLOBAL sum_t* partials, const ProductShape s, const Divider by_image, const Divider by_row,
                          const i64 x_at, const i64 dy_at, const i64 dw_at, const float alpha, const float beta) {
  SHARED sum_t a_tile[2][TILE_K * PITCH_M] __attribute__((aligned(16)));
  SHARED sum_t b_tile[2][TILE_K * PITCH_N] __attribute__((aligned(16)));
  const int thread = THREAD(0), group = BLOCK(1), split = BLOCK(2);
  const int columns = s.filter_h * s.filter_w * s.reduced, tiles_n = CEIL_DIV(columns, TILE_N);
  const int n0 = BLOCK(0) % tiles_n * TILE_N, m0 = BLOCK(0) / tiles_n * TILE_M;
  const int per_image = s.dst_h * s.dst_w, pixels = s.images * per_image, step_count = CEIL_DIV(pixels, TILE_K);
  const int first_step = (int)((i64)step_count * split / s.splits),
            last_step = (int)((i64)step_count * (split + 1) / s.splits);
  dw += dw_at;
  x += x_at + (i64)group * s.reduced * s.src_channel;
  dy += dy_at + (i64)group * s.outputs * s.dst_channel;

  // Column n is a (tap, channel) pair in the memory order of the filter.
#if QUADS
#define B_COUNT 1
#define M_LANES (TILE_M / 4)
#define N_LANES (TILE_N / 4)
  const int a_m = thread % M_LANES * 4, a_k = thread / M_LANES, b_n = thread % N_LANES * 4, b_k = thread / N_LANES;
#else
#define B_COUNT LOADS_B
  const int a_k = thread % TILE_K, a_m = thread / TILE_K, b_k = a_k, b_n = a_m;
#endif
  int b_offset[B_COUNT], b_h[B_COUNT], b_w[B_COUNT];
  UNROLL
  for (int i = 0; i < B_COUNT; ++i) {
    const int n = n0 + b_n + i * (THREADS / TILE_K);
#if FAST_CHANNEL
    const int tap = n / s.reduced, c = n - tap * s.reduced;
#else
    const int c = n / (s.filter_h * s.filter_w), tap = n - c * s.filter_h * s.filter_w;
#endif
    const int r = tap / s.filter_w;
    b_h[i] = n < columns ? r * s.dilation_h - s.pad_h : -(1 << 30);
    b_w[i] = (tap - r * s.filter_w) * s.dilation_w - s.pad_w;
    b_offset[i] = (r * s.dilation_h - s.pad_h) * s.src_row + b_w[i] * s.src_col + c * s.src_channel;
  }

  sum_t a_regs[LOADS_A], b_regs[LOADS_B];
  sum_t acc[THREAD_M][THREAD_N];
  clear_tile(acc);
  const int tile_m = THREAD_TILE_M(thread) * 4, tile_n = THREAD_TILE_N(thread) * 4;

  NO_UNROLL
  for (int step = first_step; step <= last_step; ++step) {
    if (step < last_step) {
#if QUADS
      UNROLL
      for (int i = 0; i < LOADS_A / 4; ++i) {
        const int pixel = step * TILE_K + a_k + i * (THREADS / M_LANES);
        const int image = divide(pixel, by_image), rest = pixel - image * per_image, p = divide(rest, by_row);
        if (pixel < pixels && m0 + a_m < s.outputs)
          load4(dy + image * s.dst_image + p * s.dst_row + (rest - p * s.dst_w) * s.dst_col + m0 + a_m, a_regs + i * 4);
        else {
          UNROLL
          for (int j = 0; j < 4; ++j) a_regs[i * 4 + j] = 0;
        }
      }
      UNROLL
      for (int i = 0; i < LOADS_B / 4; ++i) {
        const int pixel = step * TILE_K + b_k + i * (THREADS / N_LANES);
        const int image = divide(pixel, by_image), rest = pixel - image * per_image, p = divide(rest, by_row);
        const int h = p * s.stride_h, w = (rest - p * s.dst_w) * s.stride_w;
        if (pixel < pixels && (u32)(h + b_h[0]) < (u32)s.src_h && (u32)(w + b_w[0]) < (u32)s.src_w)
          load4(x + image * s.src_image + (h * s.src_row + w * s.src_col + b_offset[0]), b_regs + i * 4);
        else {
          UNROLL
          for (int j = 0; j < 4; ++j) b_regs[i * 4 + j] = 0;
        }
      }
#else
      const int pixel = step * TILE_K + a_k;
      const int image = divide(pixel, by_image), rest = pixel - image * per_image, p = divide(rest, by_row);
      const int q = rest - p * s.dst_w, h = p * s.stride_h, w = q * s.stride_w;
      GLOBAL const in_t* dy_pixel =
          dy + image * s.dst_image + (p * s.dst_row + q * s.dst_col + (m0 + a_m) * s.dst_channel);
      GLOBAL const in_t* x_pixel = x + image * s.src_image + (h * s.src_row + w * s.src_col);
      UNROLL
      for (int i = 0; i < LOADS_A; ++i)
        a_regs[i] = pixel < pixels && m0 + a_m + i * (THREADS / TILE_K) < s.outputs
                        ? LOAD(IN, dy_pixel, i * (THREADS / TILE_K) * s.dst_channel)
                        : 0;
      UNROLL
      for (int i = 0; i < LOADS_B; ++i)
        b_regs[i] = pixel < pixels && (u32)(h + b_h[i]) < (u32)s.src_h && (u32)(w + b_w[i]) < (u32)s.src_w
                        ? LOAD(IN, x_pixel, b_offset[i])
                        : 0;
#endif
    }
    if (step > first_step) multiply_tiles(a_tile[(step - 1) & 1] + tile_m, b_tile[(step - 1) & 1] + tile_n, acc);
    if (step < last_step) {
      LOCAL sum_t *a = a_tile[step & 1], *b = b_tile[step & 1];
#if QUADS
      UNROLL
      for (int i = 0; i < LOADS_A; ++i) a[(a_k + i / 4 * (THREADS / M_LANES)) * PITCH_M + a_m + i % 4] = a_regs[i];
      UNROLL
      for (int i = 0; i < LOADS_B; ++i) b[(b_k + i / 4 * (THREADS / N_LANES)) * PITCH_N + b_n + i % 4] = b_regs[i];
#else
      UNROLL
      for (int i = 0; i < LOADS_A; ++i) a[a_k * PITCH_M + a_m + i * (THREADS / TILE_K)] = a_regs[i];
      UNROLL
      for (int i = 0; i < LOADS_B; ++i) b[b_k * PITCH_N + b_n + i * (THREADS / TILE_K)] = b_regs[i];
#endif
    }
    BARRIER();
  }

  GLOBAL sum_t* partial =
      s.splits > 1 ? (GLOBAL sum_t*)align16(partials) + (i64)split * BLOCKS(1) * s.outputs * columns : 0;
  UNROLL
  for (int i = 0; i < THREAD_M; ++i) {
    const int m = m0 + tile_m + i / 4 * QUAD_STEP_M + i % 4;
    if (m >= s.outputs) continue;
    const i64 at = ((i64)group * s.outputs + m) * columns;
    UNROLL
    for (int j = 0; j < QUADS_N; ++j) {
      const int n = n0 + tile_n + j * QUAD_STEP_N;
      if (s.store_quads && n < columns) {
        store_result4(dw, partial, at + n, acc[i] + j * 4, alpha, beta);
        continue;
      }
      UNROLL
      for (int u = 0; u < 4; ++u)
        if (n + u < columns) store_result(dw, partial, at + n + u, acc[i][j * 4 + u], alpha, beta);
    }
  }
}
#endif
