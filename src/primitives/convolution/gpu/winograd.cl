// Winograd convolution with 3x3 filters, F(2x2,3x3) and F(4x4,3x3) (Lavin and Gray, "Fast Algorithms for Convolutional
// Neural Networks", 2016): the transforms around the products, one of which there is for each point. The gradient of
// the filters is the same bilinear form with respect to them. Told by -D: IN, OUT, TILE (2, 4), LAST (1 when channels
// are innermost in the matrices).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable.h"
#include "kernels/gpu/vector.h"
#include "kernels/gpu/conv_args.h"

#define THREADS 256
#define SIDE (TILE + 2)
#define POINTS (SIDE * SIDE)

#if TILE == 2
INLINE void source_1d(const float* d, float* v) {
  v[0] = d[0] - d[2], v[1] = d[1] + d[2], v[2] = d[2] - d[1], v[3] = d[1] - d[3];
}
INLINE void filter_1d(const float* g, float* v) {
  v[0] = g[0], v[1] = 0.5f * (g[0] + g[1] + g[2]), v[2] = 0.5f * (g[0] - g[1] + g[2]), v[3] = g[2];
}
INLINE void result_1d(const float* m, float* y) { y[0] = m[0] + m[1] + m[2], y[1] = m[1] - m[2] - m[3]; }
INLINE void slope_1d(const float* y, float* v) { v[0] = y[0], v[1] = y[0] + y[1], v[2] = y[0] - y[1], v[3] = -y[1]; }
INLINE void gradient_1d(const float* s, float* g) {
  g[0] = s[0] + 0.5f * (s[1] + s[2]), g[1] = 0.5f * (s[1] - s[2]), g[2] = 0.5f * (s[1] + s[2]) + s[3];
}
#else
INLINE void source_1d(const float* d, float* v) {
  v[0] = 4 * d[0] - 5 * d[2] + d[4], v[5] = 4 * d[1] - 5 * d[3] + d[5];
  v[1] = d[4] - 4 * d[2] + (d[3] - 4 * d[1]), v[2] = d[4] - 4 * d[2] - (d[3] - 4 * d[1]);
  v[3] = d[4] - d[2] + 2 * (d[3] - d[1]), v[4] = d[4] - d[2] - 2 * (d[3] - d[1]);
}
INLINE void filter_1d(const float* g, float* v) {
  const float even = (g[0] + g[2]) / 6, far = g[0] / 24 + g[2] / 6;
  v[0] = g[0] / 4, v[1] = -even - g[1] / 6, v[2] = g[1] / 6 - even;
  v[3] = far + g[1] / 12, v[4] = far - g[1] / 12, v[5] = g[2];
}
INLINE void result_1d(const float* m, float* y) {
  const float near = m[1] + m[2], far = m[3] + m[4], near_odd = m[1] - m[2], far_odd = m[3] - m[4];
  y[0] = m[0] + near + far, y[1] = near_odd + 2 * far_odd, y[2] = near + 4 * far;
  y[3] = near_odd + 8 * far_odd + m[5];
}
INLINE void slope_1d(const float* y, float* v) {
  v[0] = y[0], v[1] = y[0] + y[2] + (y[1] + y[3]), v[2] = y[0] + y[2] - (y[1] + y[3]);
  v[3] = y[0] + 4 * y[2] + (2 * y[1] + 8 * y[3]), v[4] = y[0] + 4 * y[2] - (2 * y[1] + 8 * y[3]), v[5] = y[3];
}
INLINE void gradient_1d(const float* s, float* g) {
  const float near = (s[1] + s[2]) / 6, far = s[3] + s[4];
  g[0] = s[0] / 4 - near + far / 24, g[1] = (s[2] - s[1]) / 6 + (s[3] - s[4]) / 12, g[2] = far / 6 - near + s[5];
}
#endif

/// out = F in F^T, where `transform` applies F: FROM x FROM elements become TO x TO.
#define BOTH_WAYS(transform, FROM, TO, in, out)                  \
  {                                                              \
    float half_way[TO][FROM];                                    \
    UNROLL                                                       \
    for (int j = 0; j < FROM; ++j) {                             \
      float column[FROM], made[TO];                              \
      UNROLL                                                     \
      for (int i = 0; i < FROM; ++i) column[i] = in[i][j];       \
      transform(column, made);                                   \
      UNROLL                                                     \
      for (int i = 0; i < TO; ++i) half_way[i][j] = made[i];     \
    }                                                            \
    UNROLL                                                       \
    for (int i = 0; i < TO; ++i) transform(half_way[i], out[i]); \
  }

/// Tiles of TILE x TILE outputs. Strides are in elements.
typedef struct {
  i64 image, channel, row, col;
} Places;

typedef struct {
  int channels, height, width, pad_h, pad_w, tiles_h, tiles_w, tiles;
} Tiles;

typedef struct {
  int channel, tile, image, row, col;
} Spot;

INLINE Spot spot_at(i64 i, Tiles s) {
  Spot at;
#if LAST
  at.channel = (int)(i % s.channels), at.tile = (int)(i / s.channels);
#else
  at.tile = (int)(i % s.tiles), at.channel = (int)(i / s.tiles);
#endif
  at.image = at.tile / (s.tiles_h * s.tiles_w);
  const int rest = at.tile - at.image * s.tiles_h * s.tiles_w;
  at.row = rest / s.tiles_w * TILE, at.col = rest % s.tiles_w * TILE;
  return at;
}

/// Element (point, channel, tile) of a matrix, and the step to the next point.
INLINE i64 element_at(Spot at, Tiles s) {
  return LAST ? (i64)at.tile * POINTS * s.channels + at.channel : (i64)at.channel * s.tiles + at.tile;
}
#define POINT_STEP(s) (LAST ? (i64)(s).channels : (i64)(s).channels * (s).tiles)

#define FIRST ((i64)BLOCK(0) * THREADS + THREAD(0))

/// The windows of the tiles of x (or of dy, for backward data) as points.
KERNEL THREADS_PER_BLOCK(THREADS) winograd_source(GLOBAL const in_t* RESTRICT x, GLOBAL float* points, const i64 begin,
                                                  const Tiles s, const Places e) {
  if (FIRST >= (i64)s.channels * s.tiles) return;
  const Spot at = spot_at(FIRST, s);
  GLOBAL const in_t* from = x + at.image * e.image + at.channel * e.channel;
  float window[SIDE][SIDE], made[SIDE][SIDE];
  UNROLL
  for (int i = 0; i < SIDE; ++i) {
    UNROLL
    for (int j = 0; j < SIDE; ++j) {
      const int h = at.row - s.pad_h + i, v = at.col - s.pad_w + j;
      const int inside = (u32)h < (u32)s.height && (u32)v < (u32)s.width;
      window[i][j] = inside ? LOAD(IN, from, h * e.row + v * e.col) : 0;
    }
  }
  BOTH_WAYS(source_1d, SIDE, SIDE, window, made);
  GLOBAL float* to = points + begin + element_at(at, s);
  UNROLL
  for (int p = 0; p < POINTS; ++p) to[p * POINT_STEP(s)] = made[p / SIDE][p % SIDE];
}

/// The tiles of dy as points, for the filters' gradient.
KERNEL THREADS_PER_BLOCK(THREADS) winograd_slopes(GLOBAL const in_t* RESTRICT dy, GLOBAL float* points, const i64 begin,
                                                  const Tiles s, const Places e) {
  if (FIRST >= (i64)s.channels * s.tiles) return;
  const Spot at = spot_at(FIRST, s);
  GLOBAL const in_t* from = dy + at.image * e.image + at.channel * e.channel;
  float tile[TILE][TILE], made[SIDE][SIDE];
  UNROLL
  for (int i = 0; i < TILE; ++i) {
    UNROLL
    for (int j = 0; j < TILE; ++j) {
      const int inside = at.row + i < s.height && at.col + j < s.width;
      tile[i][j] = inside ? LOAD(IN, from, (at.row + i) * e.row + (at.col + j) * e.col) : 0;
    }
  }
  BOTH_WAYS(slope_1d, TILE, SIDE, tile, made);
  GLOBAL float* to = points + begin + element_at(at, s);
  UNROLL
  for (int p = 0; p < POINTS; ++p) to[p * POINT_STEP(s)] = made[p / SIDE][p % SIDE];
}

/// Filters as points: (point, output channel, input channel). `turned` by half a turn for backward data.
KERNEL THREADS_PER_BLOCK(THREADS)
    winograd_filters(GLOBAL const in_t* RESTRICT w, GLOBAL float* points, const i64 begin, const int outputs,
                     const int inputs, const int flipped, const Places e) {
  const i64 count = (i64)outputs * inputs, i = FIRST;
  if (i >= count) return;
  GLOBAL const in_t* from = w + i / inputs * e.image + i % inputs * e.channel;
  float taps[3][3], made[SIDE][SIDE];
  UNROLL
  for (int r = 0; r < 3; ++r) {
    UNROLL
    for (int q = 0; q < 3; ++q)
      taps[r][q] = LOAD(IN, from, (flipped ? 2 - r : r) * e.row + (flipped ? 2 - q : q) * e.col);
  }
  BOTH_WAYS(filter_1d, 3, SIDE, taps, made);
  UNROLL
  for (int p = 0; p < POINTS; ++p) points[begin + p * count + i] = made[p / SIDE][p % SIDE];
}

/// Tiles of the result from the points of all its channels.
KERNEL THREADS_PER_BLOCK(THREADS) winograd_result(GLOBAL const float* RESTRICT points, GLOBAL out_t* y, const i64 begin,
                                                  const Tiles s, const Places e, const float alpha, const float beta) {
  if (FIRST >= (i64)s.channels * s.tiles) return;
  const Spot at = spot_at(FIRST, s);
  GLOBAL const float* from = points + begin + element_at(at, s);
  float given[SIDE][SIDE], made[TILE][TILE];
  UNROLL
  for (int p = 0; p < POINTS; ++p) given[p / SIDE][p % SIDE] = from[p * POINT_STEP(s)];
  BOTH_WAYS(result_1d, SIDE, TILE, given, made);
  GLOBAL out_t* to = y + at.image * e.image + at.channel * e.channel;
  UNROLL
  for (int i = 0; i < TILE; ++i) {
    UNROLL
    for (int j = 0; j < TILE; ++j)
      if (at.row + i < s.height && at.col + j < s.width)
        store_scaled(to + (at.row + i) * e.row + (at.col + j) * e.col, made[i][j], alpha, beta);
  }
}

/// The filters' gradient from its points.
KERNEL THREADS_PER_BLOCK(THREADS)
    winograd_gradient(GLOBAL const float* RESTRICT points, GLOBAL out_t* dw, const i64 begin, const int outputs,
                      const int inputs, const Places e, const float alpha, const float beta) {
  const i64 count = (i64)outputs * inputs, i = FIRST;
  if (i >= count) return;
  float given[SIDE][SIDE], made[3][3];
  UNROLL
  for (int p = 0; p < POINTS; ++p) given[p / SIDE][p % SIDE] = points[begin + p * count + i];
  BOTH_WAYS(gradient_1d, SIDE, 3, given, made);
  GLOBAL out_t* to = dw + i / inputs * e.image + i % inputs * e.channel;
  UNROLL
  for (int r = 0; r < 3; ++r) {
    UNROLL
    for (int q = 0; q < 3; ++q) store_scaled(to + r * e.row + q * e.col, made[r][q], alpha, beta);
  }
}
