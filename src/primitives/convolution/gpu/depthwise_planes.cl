// NCHW depthwise convolution, three directions. A block copies bands of planes to local memory in 16-byte vectors,
// whatever the width; a thread then computes ROWS outputs of one column, using every input for all filter rows that
// read it.
// Options: IN, OUT, DIRECTION (0, 1, 2), FILTER_H, FILTER_W, STRIDE (1, 2), ROWS, LOCAL_FLOATS; forward with an
// epilogue: FUSES.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"
#include "kernels/gpu/portable/partials.h"
#include "kernels/gpu/portable/depthwise_epilogue.h"

#define THREADS 256
#define TAPS (FILTER_H * FILTER_W)
// Backward data with stride 2: the first row of a thread is one that tap 0 maps to a row of src, so that the parity of
// a row selects its taps at compile time.
#define PHASES (DIRECTION == 1 && STRIDE == 2)
#if PHASES
#define FIRST_H (-((FILTER_H - 1) / 2))
#define BAND_H ((ROWS - 1) / 2 - FIRST_H + 1)
#else
#define BAND_H ((ROWS - 1) * STRIDE + FILTER_H)
#endif

/// Rows [first, end) of src that rows [row, row + count) of dst depend on.
typedef struct {
  int first, end;
} Band;

INLINE Band band_of(DepthwiseShape d, int row, int count) {
  Band b;
  const int last = row + count - 1;
#if PHASES
  b.first = MAX(0, (row + d.pad_h - FILTER_H + STRIDE) / STRIDE);
  b.end = MIN(d.src_h, (last + d.pad_h) / STRIDE + 1);
#else
  b.first = MAX(0, row * STRIDE - d.pad_h);
  b.end = MIN(d.src_h, last * STRIDE - d.pad_h + FILTER_H);
#endif
  return b;
}

/// Floats of local memory per band: it is copied from the 16-byte boundary at or before its first element.
INLINE int band_pitch(int elements) { return (elements + VECTOR - 1) / VECTOR * VECTOR + VECTOR; }

/// Copies `elements` elements from `offset` on of the planes first, first + step, ... to local memory. src has `total`
/// elements.
INLINE void copy_bands(GLOBAL const in_t* src, i64 total, i64 first, i64 step, int planes, i64 plane_size, int offset,
                       int elements, LOCAL sum_t* tile) {
  const int pitch = band_pitch(elements), vectors = pitch / VECTOR;
  for (int i = THREAD(0); i < planes * vectors; i += THREADS) {
    const int j = planes == 1 ? 0 : i / vectors;
    const i64 begin = (first + j * step) * plane_size + offset;
    const i64 at = (begin & ~(i64)(VECTOR - 1)) + (i - j * vectors) * VECTOR;
    if (at >= begin + elements) continue;
    sum_t v[VECTOR];
    if (at + VECTOR <= total) {
      load_vector(src + at, v);
    } else {
      UNROLL
      for (int u = 0; u < VECTOR; ++u) v[u] = at + u < total ? LOAD(IN, src, at + u) : 0;
    }
    LOCAL sum_t* to = tile + j * pitch + (i - j * vectors) * VECTOR;
    UNROLL
    for (int u = 0; u < VECTOR; u += 4) {
      u32x4 quad;
      quad.x = BITS_OF_SUM(v[u]);
      quad.y = BITS_OF_SUM(v[u + 1]);
      quad.z = BITS_OF_SUM(v[u + 2]);
      quad.w = BITS_OF_SUM(v[u + 3]);
      *(LOCAL u32x4*)(to + u) = quad;
    }
  }
}

/// Local memory offset of the first element of the j-th band: planes are not aligned to 16 bytes.
INLINE int band_at(int j, i64 plane, i64 plane_size, int offset, int pitch) {
  return j * pitch + (int)((plane * plane_size + offset) & (VECTOR - 1));
}

#if DIRECTION != 2
/// Computes a column of ROWS outputs; `row` is the src row of the first tap, relative to the rows in local memory.
INLINE void compute_column(LOCAL const sum_t* tile, const sum_t* w, DepthwiseShape d, int rows, int row, int col,
                           sum_t* acc) {
  int inside[FILTER_W], at[FILTER_W];
  UNROLL
  for (int s = 0; s < FILTER_W; ++s) {
    at[s] = PHASES ? (col - s) / 2 : col + s;
    inside[s] = (u32)at[s] < (u32)d.src_w && (!PHASES || (col >= s && (col - s) % 2 == 0));
  }
  UNROLL
  for (int i = 0; i < BAND_H; ++i) {
    const int row_inside = (u32)(row + i) < (u32)rows;
    sum_t v[FILTER_W];
    UNROLL
    for (int s = 0; s < FILTER_W; ++s) v[s] = row_inside && inside[s] ? tile[(row + i) * d.src_w + at[s]] : 0;
    UNROLL
    for (int p = 0; p < ROWS; ++p) {
#if PHASES
      const int r = p - 2 * (i + FIRST_H);
#else
      const int r = i - p * STRIDE;
#endif
      if (r < 0 || r >= FILTER_H) continue;
      UNROLL
      for (int s = 0; s < FILTER_W; ++s) acc[p] = MULTIPLY_ADD(v[s], w[r * FILTER_W + s], acc[p]);
    }
  }
}

KERNEL THREADS_PER_BLOCK(THREADS)
    depthwise_planes(GLOBAL const in_t* RESTRICT src, GLOBAL const in_t* RESTRICT w, GLOBAL out_t* dst,
                     const DepthwiseShape d, const float alpha, const float beta EPILOGUE_PARAMETERS) {
  SHARED sum_t tile[LOCAL_FLOATS] __attribute__((aligned(16)));
  const i64 all_planes = (i64)d.images * d.channels, first = (i64)BLOCK(0) * d.planes;
  const int planes = (int)MIN((i64)d.planes, all_planes - first), row0 = BLOCK(1) * d.band;
  const int rows = MIN(d.band, d.dst_h - row0), rows_before = PHASES ? d.pad_h % 2 : 0;
  const int row_tiles = CEIL_DIV(rows + rows_before, ROWS);
  const Band band = band_of(d, row0, rows);
  const int elements = MAX(0, band.end - band.first) * d.src_w, offset = band.first * d.src_w;
  const int pitch = band_pitch(elements), first_channel = (int)(first % d.channels);
  const i64 plane_size = (i64)d.src_h * d.src_w;
  copy_bands(src, all_planes * plane_size, first, 1, planes, plane_size, offset, elements, tile);
  BARRIER();
  for (int i = THREAD(0); i < planes * row_tiles * d.dst_w; i += THREADS) {
    const int line = divide(i, d.by_width), col = i - line * d.dst_w, j = planes == 1 ? 0 : line / row_tiles;
    const int row = row0 - rows_before + (line - j * row_tiles) * ROWS;
    const i64 plane = first + j;
    int c = first_channel + j;
    while (c >= d.channels) c -= d.channels;
    GLOBAL const in_t* filter = w + c * TAPS;
    LOCAL const sum_t* from = tile + band_at(j, plane, plane_size, offset, pitch);
    sum_t acc[ROWS];
    sum_t taps[TAPS];
    LOAD_TERMS(1, c);
    UNROLL
    for (int t = 0; t < TAPS; ++t) taps[t] = LOAD(IN, filter, DIRECTION == 1 && STRIDE == 1 ? TAPS - 1 - t : t);
    UNROLL
    for (int p = 0; p < ROWS; ++p) acc[p] = 0;
#if PHASES
    const int h0 = (row + d.pad_h) / 2 + FIRST_H, w0 = col + d.pad_w;
#else
    const int h0 = row * STRIDE - d.pad_h, w0 = col * STRIDE - d.pad_w;
#endif
    compute_column(from, taps, d, band.end - band.first, h0 - band.first, w0, acc);
    GLOBAL out_t* to = dst + (plane * d.dst_h + row) * d.dst_w + col;
    UNROLL
    for (int p = 0; p < ROWS; ++p)
      if (row + p >= row0 && row + p < row0 + rows)
        store_finished(to + p * d.dst_w, acc[p], alpha, beta FUSED_ARGUMENTS);
  }
}

#else

#define TAPS_PER_ROUND 8

/// Block (c, i) computes every BLOCKS(1)-th band of planes of channel c. partials[i][channel][tap].
KERNEL THREADS_PER_BLOCK(THREADS)
    depthwise_planes_weights(GLOBAL const in_t* RESTRICT x, GLOBAL const in_t* RESTRICT dy, GLOBAL sum_t* partials,
                             const DepthwiseShape d) {
  SHARED sum_t tile[LOCAL_FLOATS] __attribute__((aligned(16)));
  SHARED sum_t sums[TAPS_PER_ROUND * THREADS];
  const int c = BLOCK(0), bands = CEIL_DIV(d.dst_h, d.band), groups = CEIL_DIV(d.images, d.planes);
  const i64 plane_size = (i64)d.src_h * d.src_w, total = d.images * plane_size * d.channels;
  GLOBAL sum_t* results = (GLOBAL sum_t*)align16(partials);
  sum_t acc[TAPS];
  UNROLL
  for (int t = 0; t < TAPS; ++t) acc[t] = 0;
  for (int band_index = BLOCK(1); band_index < groups * bands; band_index += BLOCKS(1)) {
    const int image = band_index / bands * d.planes, row0 = band_index % bands * d.band;
    const int planes = MIN(d.planes, d.images - image), rows = MIN(d.band, d.dst_h - row0);
    const Band band = band_of(d, row0, rows);
    const int elements = MAX(0, band.end - band.first) * d.src_w, offset = band.first * d.src_w;
    const int row_tiles = CEIL_DIV(rows, ROWS), pitch = band_pitch(elements), inside = band.end - band.first;
    const i64 first = (i64)image * d.channels + c;
    BARRIER();
    copy_bands(x, total, first, d.channels, planes, plane_size, offset, elements, tile);
    BARRIER();
    for (int i = THREAD(0); i < planes * row_tiles * d.dst_w; i += THREADS) {
      const int line = divide(i, d.by_width), col = i - line * d.dst_w, j = planes == 1 ? 0 : line / row_tiles;
      const int row = row0 + (line - j * row_tiles) * ROWS;
      const i64 plane = first + (i64)j * d.channels;
      LOCAL const sum_t* from = tile + band_at(j, plane, plane_size, offset, pitch);
      GLOBAL const in_t* dy_column = dy + (plane * d.dst_h + row) * d.dst_w + col;
      const int w0 = col * STRIDE - d.pad_w, h0 = row * STRIDE - d.pad_h - band.first;
      sum_t dy_values[ROWS];
      UNROLL
      for (int p = 0; p < ROWS; ++p) dy_values[p] = row + p < row0 + rows ? LOAD(IN, dy_column, p * d.dst_w) : 0;
      UNROLL
      for (int k = 0; k < BAND_H; ++k) {
        const int row_inside = (u32)(h0 + k) < (u32)inside;
        UNROLL
        for (int s = 0; s < FILTER_W; ++s) {
          const sum_t v = row_inside && (u32)(w0 + s) < (u32)d.src_w ? from[(h0 + k) * d.src_w + w0 + s] : 0;
          UNROLL
          for (int p = 0; p < ROWS; ++p) {
            const int r = k - p * STRIDE;
            if (r >= 0 && r < FILTER_H) acc[r * FILTER_W + s] = MULTIPLY_ADD(dy_values[p], v, acc[r * FILTER_W + s]);
          }
        }
      }
    }
  }
  // Reduction over the threads, TAPS_PER_ROUND taps at a time: 32 threads per tap, then one.
  const int lane = THREAD(0) % 32, tap_of_thread = THREAD(0) / 32;
  UNROLL
  for (int t0 = 0; t0 < TAPS; t0 += TAPS_PER_ROUND) {
    BARRIER();
    UNROLL
    for (int t = 0; t < TAPS_PER_ROUND; ++t)
      sums[t * THREADS + THREAD(0)] = t0 + t < TAPS ? acc[MIN(t0 + t, TAPS - 1)] : 0;
    BARRIER();
    sum_t sum = 0;
    UNROLL
    for (int k = 0; k < THREADS / 32; ++k) sum += sums[tap_of_thread * THREADS + k * 32 + lane];
    BARRIER();
    sums[THREAD(0)] = sum;
    BARRIER();
    if (THREAD(0) < TAPS_PER_ROUND && t0 + THREAD(0) < TAPS) {
      sum = 0;
      for (int k = 0; k < 32; ++k) sum += sums[THREAD(0) * 32 + k];
      results[((i64)BLOCK(1) * d.channels + c) * TAPS + t0 + THREAD(0)] = sum;
    }
  }
}
#endif
