// Winograd convolution with 3x3 filters, F(2x2,3x3) and F(4x4,3x3) (Lavin and Gray, "Fast Algorithms for Convolutional
// Neural Networks", 2016): transforms of src, filters and result; a matrix product per point is in between. Backward
// weights uses the transposed transforms of the same bilinear form.
// Options: IN, OUT, TILE (2, 4), LAST (1 when channels are innermost in the matrices).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"
#include "kernels/gpu/portable/conv_args.h"

#define THREADS 256
#define SIDE (TILE + 2)
#define POINTS (SIDE * SIDE)

#if TILE == 2
INLINE void source_1d(const float* d, float* v) {
  v[0] = d[0] - d[2];
  v[1] = d[1] + d[2];
  v[2] = d[2] - d[1];
  v[3] = d[1] - d[3];
}
INLINE void filter_1d(const float* g, float* v) {
  v[0] = g[0];
  v[1] = 0.5f * (g[0] + g[1] + g[2]);
  v[2] = 0.5f * (g[0] - g[1] + g[2]);
  v[3] = g[2];
}
INLINE void result_1d(const float* m, float* y) {
  y[0] = m[0] + m[1] + m[2];
  y[1] = m[1] - m[2] - m[3];
}
INLINE void dy_1d(const float* y, float* v) {
  v[0] = y[0];
  v[1] = y[0] + y[1];
  v[2] = y[0] - y[1];
  v[3] = -y[1];
}
INLINE void gradient_1d(const float* s, float* g) {
  g[0] = s[0] + 0.5f * (s[1] + s[2]);
  g[1] = 0.5f * (s[1] - s[2]);
  g[2] = 0.5f * (s[1] + s[2]) + s[3];
}
#else
INLINE void source_1d(const float* d, float* v) {
  v[0] = 4 * d[0] - 5 * d[2] + d[4];
  v[5] = 4 * d[1] - 5 * d[3] + d[5];
  v[1] = d[4] - 4 * d[2] + (d[3] - 4 * d[1]);
  v[2] = d[4] - 4 * d[2] - (d[3] - 4 * d[1]);
  v[3] = d[4] - d[2] + 2 * (d[3] - d[1]);
  v[4] = d[4] - d[2] - 2 * (d[3] - d[1]);
}
INLINE void filter_1d(const float* g, float* v) {
  const float even = (g[0] + g[2]) / 6, weighted = g[0] / 24 + g[2] / 6;
  v[0] = g[0] / 4;
  v[1] = -even - g[1] / 6;
  v[2] = g[1] / 6 - even;
  v[3] = weighted + g[1] / 12;
  v[4] = weighted - g[1] / 12;
  v[5] = g[2];
}
INLINE void result_1d(const float* m, float* y) {
  const float sum_12 = m[1] + m[2], sum_34 = m[3] + m[4], diff_12 = m[1] - m[2], diff_34 = m[3] - m[4];
  y[0] = m[0] + sum_12 + sum_34;
  y[1] = diff_12 + 2 * diff_34;
  y[2] = sum_12 + 4 * sum_34;
  y[3] = diff_12 + 8 * diff_34 + m[5];
}
INLINE void dy_1d(const float* y, float* v) {
  v[0] = y[0];
  v[1] = y[0] + y[2] + (y[1] + y[3]);
  v[2] = y[0] + y[2] - (y[1] + y[3]);
  v[3] = y[0] + 4 * y[2] + (2 * y[1] + 8 * y[3]);
  v[4] = y[0] + 4 * y[2] - (2 * y[1] + 8 * y[3]);
  v[5] = y[3];
}
INLINE void gradient_1d(const float* s, float* g) {
  const float sum_12 = (s[1] + s[2]) / 6, sum_34 = s[3] + s[4];
  g[0] = s[0] / 4 - sum_12 + sum_34 / 24;
  g[1] = (s[2] - s[1]) / 6 + (s[3] - s[4]) / 12;
  g[2] = sum_34 / 6 - sum_12 + s[5];
}
#endif

/// out (TO x TO) = F in F^T for in (FROM x FROM), where `transform` applies F to a vector.
#define TRANSFORM_2D(transform, FROM, TO, in, out)                      \
  {                                                                     \
    float columns_done[TO][FROM];                                       \
    UNROLL                                                              \
    for (int j = 0; j < FROM; ++j) {                                    \
      float column[FROM], transformed[TO];                              \
      UNROLL                                                            \
      for (int i = 0; i < FROM; ++i) column[i] = in[i][j];              \
      transform(column, transformed);                                   \
      UNROLL                                                            \
      for (int i = 0; i < TO; ++i) columns_done[i][j] = transformed[i]; \
    }                                                                   \
    UNROLL                                                              \
    for (int i = 0; i < TO; ++i) transform(columns_done[i], out[i]);    \
  }

/// In elements.
typedef struct {
  i64 image, channel, row, col;
} Strides;

/// Tensor and tiles of TILE x TILE outputs: a slice of `tiles` tiles, from `first` of `all` on.
typedef struct {
  int channels, height, width, pad_h, pad_w, tiles_h, tiles_w, tiles, first, all;
} Tiles;

/// tile: in the slice, which may end after the last tile (`exists`). row and col: the first output of the tile.
typedef struct {
  int channel, tile, exists, image, row, col;
} Position;

INLINE Position position_of(i64 i, Tiles s) {
  Position at;
#if LAST
  at.channel = (int)(i % s.channels);
  at.tile = (int)(i / s.channels);
#else
  at.tile = (int)(i % s.tiles);
  at.channel = (int)(i / s.tiles);
#endif
  const int tile = s.first + at.tile;
  at.exists = tile < s.all;
  at.image = tile / (s.tiles_h * s.tiles_w);
  const int tile_of_image = tile - at.image * s.tiles_h * s.tiles_w;
  at.row = tile_of_image / s.tiles_w * TILE;
  at.col = tile_of_image % s.tiles_w * TILE;
  return at;
}

/// Element (point, channel, tile) of a matrix, and the step to the next point.
INLINE i64 point_offset(Position at, Tiles s) {
  return LAST ? (i64)at.tile * POINTS * s.channels + at.channel : (i64)at.channel * s.tiles + at.tile;
}
#define POINT_STEP(s) (LAST ? (i64)(s).channels : (i64)(s).channels * (s).tiles)

#define FIRST ((i64)BLOCK(0) * THREADS + THREAD(0))

/// Input windows of the tiles of x (backward data: of dy) to points.
KERNEL THREADS_PER_BLOCK(THREADS) winograd_source(GLOBAL const in_t* RESTRICT x, GLOBAL float* points,
                                                  const i64 points_at, const Tiles s, const Strides e) {
  if (FIRST >= (i64)s.channels * s.tiles) return;
  const Position at = position_of(FIRST, s);
  GLOBAL const in_t* from = x + at.image * e.image + at.channel * e.channel;
  float window[SIDE][SIDE], result[SIDE][SIDE];
  UNROLL
  for (int i = 0; i < SIDE; ++i) {
    UNROLL
    for (int j = 0; j < SIDE; ++j) {
      const int h = at.row - s.pad_h + i, v = at.col - s.pad_w + j;
      const int inside = at.exists && (u32)h < (u32)s.height && (u32)v < (u32)s.width;
      window[i][j] = inside ? LOAD(IN, from, h * e.row + v * e.col) : 0;
    }
  }
  TRANSFORM_2D(source_1d, SIDE, SIDE, window, result);
  GLOBAL float* to = points + points_at + point_offset(at, s);
  UNROLL
  for (int p = 0; p < POINTS; ++p) to[p * POINT_STEP(s)] = result[p / SIDE][p % SIDE];
}

/// Tiles of dy to points, for backward weights.
KERNEL THREADS_PER_BLOCK(THREADS) winograd_slopes(GLOBAL const in_t* RESTRICT dy, GLOBAL float* points,
                                                  const i64 points_at, const Tiles s, const Strides e) {
  if (FIRST >= (i64)s.channels * s.tiles) return;
  const Position at = position_of(FIRST, s);
  GLOBAL const in_t* from = dy + at.image * e.image + at.channel * e.channel;
  float tile[TILE][TILE], result[SIDE][SIDE];
  UNROLL
  for (int i = 0; i < TILE; ++i) {
    UNROLL
    for (int j = 0; j < TILE; ++j) {
      const int inside = at.exists && at.row + i < s.height && at.col + j < s.width;
      tile[i][j] = inside ? LOAD(IN, from, (at.row + i) * e.row + (at.col + j) * e.col) : 0;
    }
  }
  TRANSFORM_2D(dy_1d, TILE, SIDE, tile, result);
  GLOBAL float* to = points + points_at + point_offset(at, s);
  UNROLL
  for (int p = 0; p < POINTS; ++p) to[p * POINT_STEP(s)] = result[p / SIDE][p % SIDE];
}

/// Filters to points (point, output channel, input channel), `flipped` in both dimensions for backward data.
KERNEL THREADS_PER_BLOCK(THREADS)
    winograd_filters(GLOBAL const in_t* RESTRICT w, GLOBAL float* points, const i64 points_at, const int outputs,
                     const int inputs, const int flipped, const Strides e) {
  const i64 count = (i64)outputs * inputs, i = FIRST;
  if (i >= count) return;
  GLOBAL const in_t* from = w + i / inputs * e.image + i % inputs * e.channel;
  float taps[3][3], result[SIDE][SIDE];
  UNROLL
  for (int r = 0; r < 3; ++r) {
    UNROLL
    for (int q = 0; q < 3; ++q)
      taps[r][q] = LOAD(IN, from, (flipped ? 2 - r : r) * e.row + (flipped ? 2 - q : q) * e.col);
  }
  TRANSFORM_2D(filter_1d, 3, SIDE, taps, result);
  UNROLL
  for (int p = 0; p < POINTS; ++p) points[points_at + p * count + i] = result[p / SIDE][p % SIDE];
}

/// Points to tiles of the result.
KERNEL THREADS_PER_BLOCK(THREADS)
    winograd_result(GLOBAL const float* RESTRICT points, GLOBAL out_t* y, const i64 points_at, const Tiles s,
                    const Strides e, const float alpha, const float beta) {
  if (FIRST >= (i64)s.channels * s.tiles) return;
  const Position at = position_of(FIRST, s);
  if (!at.exists) return;
  GLOBAL const float* from = points + points_at + point_offset(at, s);
  float point[SIDE][SIDE], result[TILE][TILE];
  UNROLL
  for (int p = 0; p < POINTS; ++p) point[p / SIDE][p % SIDE] = from[p * POINT_STEP(s)];
  TRANSFORM_2D(result_1d, SIDE, TILE, point, result);
  GLOBAL out_t* to = y + at.image * e.image + at.channel * e.channel;
  UNROLL
  for (int i = 0; i < TILE; ++i) {
    UNROLL
    for (int j = 0; j < TILE; ++j)
      if (at.row + i < s.height && at.col + j < s.width)
        store_scaled(to + (at.row + i) * e.row + (at.col + j) * e.col, result[i][j], alpha, beta);
  }
}

/// Points to the gradient of the filters.
KERNEL THREADS_PER_BLOCK(THREADS)
    winograd_gradient(GLOBAL const float* RESTRICT points, GLOBAL out_t* dw, const i64 points_at, const int outputs,
                      const int inputs, const Strides e, const float alpha, const float beta) {
  const i64 count = (i64)outputs * inputs, i = FIRST;
  if (i >= count) return;
  float point[SIDE][SIDE], result[3][3];
  UNROLL
  for (int p = 0; p < POINTS; ++p) point[p / SIDE][p % SIDE] = points[points_at + p * count + i];
  TRANSFORM_2D(gradient_1d, SIDE, 3, point, result);
  GLOBAL out_t* to = dw + i / inputs * e.image + i % inputs * e.channel;
  UNROLL
  for (int r = 0; r < 3; ++r) {
    UNROLL
    for (int q = 0; q < 3; ++q) store_scaled(to + r * e.row + q * e.col, result[r][q], alpha, beta);
  }
}
