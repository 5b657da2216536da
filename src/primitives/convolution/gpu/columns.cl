// im2col and col2im: the matrix (image, group, channel x tap, output pixel) from x, and x from such a matrix of
// products, of which col2im sums those that belong to an element. Up to three spatial dimensions.
// Options: IN (type of x), OUT (type that is written), WIDE (1 for NHWC, aligned: an element is 16 bytes of the matrix;
// sizes and strides count these).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"
#include "kernels/gpu/portable/conv_args.h"
#include "kernels/gpu/portable/partials.h"

#define THREADS 256

/// Layout of the matrix: rows ordered tap-major or channel-major, as the filter; pixels or rows innermost.
typedef struct {
  int taps_first, pixels_innermost;
} ColumnOrder;

/// Offset of (channel, tap) and pixel within the matrix of an image; `channel` counts over all groups.
INLINE i64 column_at(ColumnOrder o, int channel, int tap, int pixel, int channels, int per_group, int taps,
                     int pixels) {
  const int group = channel / per_group, c = channel - group * per_group;
  const int row = group * per_group * taps + (o.taps_first ? tap * per_group + c : c * taps + tap);
  return o.pixels_innermost ? (i64)row * pixels + pixel : (i64)pixel * channels * taps + row;
}

#if WIDE
#define LANES 4  // sums per element
typedef u32x4 item_t;
INLINE item_t zero_item(void) {
  u32x4 zero;
  zero.x = zero.y = zero.z = zero.w = 0;
  return zero;
}
INLINE void load_sums(GLOBAL const sum_t* p, sum_t* v) {
  const u32x4 u = *(GLOBAL const u32x4*)p;
  v[0] = SUM_OF_BITS(u.x);
  v[1] = SUM_OF_BITS(u.y);
  v[2] = SUM_OF_BITS(u.z);
  v[3] = SUM_OF_BITS(u.w);
}
#define LOAD_SUMS(p, v) load_sums(p, v)
#define STORE_SUMS(p, v, alpha, beta) store4_scaled(p, v, alpha, beta)
#else
#define LANES 1
typedef in_t item_t;
INLINE item_t zero_item(void) { return 0; }
#define LOAD_SUMS(p, v) ((v)[0] = *(p))
#define STORE_SUMS(p, v, alpha, beta) store_scaled(p, (v)[0], alpha, beta)
#endif

/// `pixels` pixels of each image, from `first_pixel` on. x begins at element `x_at`, the matrix at element `at`.
KERNEL THREADS_PER_BLOCK(THREADS)
    im2col(GLOBAL const item_t* RESTRICT x, GLOBAL item_t* columns, const i64 x_at, const i64 at, const ConvSizes z,
           const ConvSteps t, const ConvStrides e, const ColumnOrder o, const int first_pixel, const int pixels) {
  const int group_channels = (int)(z.c / z.groups), taps = (int)(z.filter[0] * z.filter[1] * z.filter[2]);
  const int rows = (int)z.c * taps, size = rows * pixels;
  x += x_at;
  for (int i = BLOCK(0) * THREADS + THREAD(0); i < size; i += BLOCKS(0) * THREADS) {
    const int row = o.pixels_innermost ? i / pixels : i % rows,
              pixel = first_pixel + (o.pixels_innermost ? i % pixels : i / rows);
    const int group = row / (group_channels * taps), group_row = row - group * group_channels * taps;
    const int c = group * group_channels + (o.taps_first ? group_row % group_channels : group_row / taps),
              tap = o.taps_first ? group_row / group_channels : group_row % taps;
    const int f2 = (int)z.filter[2], f1 = (int)z.filter[1], o2 = (int)z.out[2], o1 = (int)z.out[1];
    const i64 h0 = pixel / o2 / o1 * t.stride[0] - t.pad[0] + tap / f2 / f1 * t.dilation[0];
    const i64 h1 = pixel / o2 % o1 * t.stride[1] - t.pad[1] + tap / f2 % f1 * t.dilation[1];
    const i64 h2 = pixel % o2 * t.stride[2] - t.pad[2] + tap % f2 * t.dilation[2];
    const int inside = h0 >= 0 && h0 < z.in[0] && h1 >= 0 && h1 < z.in[1] && h2 >= 0 && h2 < z.in[2];
    const i64 from = c * e.x[1] + h0 * e.x[2] + h1 * e.x[3] + h2 * e.x[4];
    for (i64 n = BLOCK(1); n < z.n; n += BLOCKS(1))
      columns[at + n * size + i] = inside ? x[n * e.x[0] + from] : zero_item();
  }
}

/// The output position at which tap `r` reads input position `h`, or -1.
INLINE int output_of(int h, int r, int pad, int stride, int dilation, int out) {
  const int at = h + pad - r * dilation;
  return at < 0 || at % stride != 0 || at / stride >= out ? -1 : at / stride;
}

KERNEL THREADS_PER_BLOCK(THREADS)
    col2im(GLOBAL const sum_t* RESTRICT columns, GLOBAL out_t* x, const i64 at, const i64 x_at, const ConvSizes z,
           const ConvSteps t, const ConvStrides e, const ColumnOrder o, const float alpha, const float beta) {
  const int group_channels = (int)(z.c / z.groups), taps = (int)(z.filter[0] * z.filter[1] * z.filter[2]);
  const int pixels = (int)(z.out[0] * z.out[1] * z.out[2]);
  const int x2 = (int)z.in[2], x1 = (int)z.in[1], x0 = (int)z.in[0], size = (int)z.c * x0 * x1 * x2;
  const int f0 = (int)z.filter[0], f1 = (int)z.filter[1], f2 = (int)z.filter[2];
  const i64 matrix = z.c * taps * pixels;
  x += LANES * x_at;
  for (int i = BLOCK(0) * THREADS + THREAD(0); i < size; i += BLOCKS(0) * THREADS) {
    const int position = o.pixels_innermost ? i : i / (int)z.c,
              c = o.pixels_innermost ? i / x2 / x1 / x0 : i % (int)z.c;
    const int h2 = position % x2, h1 = position / x2 % x1, h0 = position / x2 / x1 % x0;
    for (i64 n = BLOCK(1); n < z.n; n += BLOCKS(1)) {
      sum_t sum[LANES];
      UNROLL
      for (int u = 0; u < LANES; ++u) sum[u] = 0;
      for (int r0 = 0; r0 < f0; ++r0) {
        const int p0 = output_of(h0, r0, (int)t.pad[0], (int)t.stride[0], (int)t.dilation[0], (int)z.out[0]);
        for (int r1 = 0; r1 < f1 && p0 >= 0; ++r1) {
          const int p1 = output_of(h1, r1, (int)t.pad[1], (int)t.stride[1], (int)t.dilation[1], (int)z.out[1]);
          for (int r2 = 0; r2 < f2 && p1 >= 0; ++r2) {
            const int p2 = output_of(h2, r2, (int)t.pad[2], (int)t.stride[2], (int)t.dilation[2], (int)z.out[2]);
            if (p2 < 0) continue;
            const int pixel = (p0 * (int)z.out[1] + p1) * (int)z.out[2] + p2, tap = (r0 * f1 + r1) * f2 + r2;
            sum_t products[LANES];
            LOAD_SUMS(columns + LANES * (at + n * matrix +
                                         column_at(o, c, tap, pixel, (int)z.c, group_channels, taps, pixels)),
                      products);
            UNROLL
            for (int u = 0; u < LANES; ++u) sum[u] += products[u];
          }
        }
      }
      STORE_SUMS(x + LANES * (n * e.x[0] + c * e.x[1] + h0 * e.x[2] + h1 * e.x[3] + h2 * e.x[4]), sum, alpha, beta);
    }
  }
}

/// result = alpha * sums + beta * result for `size` elements of a packed tensor; the sums begin at element `at`.
KERNEL THREADS_PER_BLOCK(THREADS) scale_sums(GLOBAL const float* RESTRICT sums, GLOBAL out_t* result, const i64 at,
                                             const i64 size, const float alpha, const float beta) {
  for (i64 i = (i64)BLOCK(0) * THREADS + THREAD(0); i < size; i += (i64)BLOCKS(0) * THREADS)
    store_scaled(result + i, sums[at + i], alpha, beta);
}
