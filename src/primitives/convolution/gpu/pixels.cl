// Gathers the pixels of x that a strided pointwise convolution reads into a packed tensor (pick), and scatters such a
// tensor to x with zeros or beta * x elsewhere (upsample), or scales the other pixels only. Up to three spatial
// dimensions.
// Options: IN = OUT (type), WIDE (1: NHWC, a unit is 16 bytes of channels; 2: NCHW, 16 bytes of a row are written at a
// time; both require alignment).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"

#define THREADS 256
#define PLANES 16           // per block: they share the index arithmetic
#define PLANES_IN_FLIGHT 4  // planes in flight
#if WIDE == 1
#define UNIT VECTOR
typedef u32x4 unit_t;
#define LOAD_UNIT(p, v) load_vector(p, v)
#define STORE_UNIT(p, v) store_vector(p, v)
#else
#define UNIT 1
typedef in_t unit_t;
#define LOAD_UNIT(p, v) ((v)[0] = LOAD(IN, p, 0))
#define STORE_UNIT(p, v) STORE(OUT, p, 0, (v)[0])
#endif

/// The block's first plane and the thread's unit of the `size` written units per plane.
typedef struct {
  i64 begin;
  int unit;
} Part;

INLINE Part part_of(int size) {
  const int chunks = CEIL_DIV(size, THREADS);
  Part p;
  p.begin = (i64)(BLOCK(0) / chunks) * PLANES;
  p.unit = BLOCK(0) % chunks * THREADS + THREAD(0);
  return p;
}

/// Index of the packed plane that is gathered from plane `plane` of x, or -1.
INLINE i64 picked_plane(const PixelShape* s, i64 plane) {
  if (s->in_d == 1) return plane;
  const i64 outer = plane / s->in_d;
  const int depth = (int)(plane - outer * s->in_d), o = depth / s->stride_d;
  return o * s->stride_d == depth && o < s->out_d ? outer * s->out_d + o : -1;
}

INLINE i64 source_plane(const PixelShape* s, i64 plane) {
  if (s->out_d == 1) return plane * s->in_d;
  const i64 outer = plane / s->out_d;
  return outer * s->in_d + (plane - outer * s->out_d) * s->stride_d;
}

#if WIDE == 2

KERNEL THREADS_PER_BLOCK(THREADS)
    pick_pixels(GLOBAL const in_t* RESTRICT x, GLOBAL in_t* RESTRICT packed, const i64 at, const PixelShape s) {
  x += s.x_at;
  const i64 planes = s.planes * s.out_d, in_plane = (i64)s.in_h * s.in_w;
  const int out_plane = s.out_h * s.out_w;
  const Part part = part_of(out_plane / VECTOR);
  if (part.unit * VECTOR >= out_plane) return;
  int from[VECTOR];
  UNROLL
  for (int u = 0; u < VECTOR; ++u) {
    const int pixel = part.unit * VECTOR + u, h = pixel / s.out_w;
    from[u] = h * s.stride_h * s.in_w + (pixel - h * s.out_w) * s.stride_w;
  }
  GLOBAL in_t* to = packed + at + part.unit * VECTOR;
  NO_UNROLL
  for (int plane0 = 0; plane0 < PLANES; plane0 += PLANES_IN_FLIGHT) {
    sum_t v[PLANES_IN_FLIGHT][VECTOR];
    UNROLL
    for (int i = 0; i < PLANES_IN_FLIGHT; ++i) {
      GLOBAL const in_t* plane = x + source_plane(&s, MIN(part.begin + plane0 + i, planes - 1)) * in_plane;
      UNROLL
      for (int u = 0; u < VECTOR; ++u) v[i][u] = LOAD(IN, plane, from[u]);
    }
    UNROLL
    for (int i = 0; i < PLANES_IN_FLIGHT; ++i)
      if (part.begin + plane0 + i < planes) store_vector(to + (part.begin + plane0 + i) * out_plane, v[i]);
  }
}

/// x = the packed tensor at its pixels, beta * x elsewhere.
KERNEL THREADS_PER_BLOCK(THREADS) upsample_pixels(GLOBAL const in_t* RESTRICT packed, GLOBAL out_t* x, const i64 at,
                                                  const PixelShape s, const float beta) {
  x += s.x_at;
  const i64 planes = s.planes * s.in_d, in_plane = (i64)s.in_h * s.in_w, out_plane = (i64)s.out_h * s.out_w;
  const int row = s.in_w / VECTOR;
  const Part part = part_of(s.in_h * row);
  const int h = part.unit / row, w = (part.unit - h * row) * VECTOR, p = h / s.stride_h;
  if (h >= s.in_h) return;
  int from[VECTOR];
  UNROLL
  for (int u = 0; u < VECTOR; ++u) {
    const int q = (w + u) / s.stride_w;
    from[u] = p * s.stride_h == h && p < s.out_h && q * s.stride_w == w + u && q < s.out_w ? p * s.out_w + q : -1;
  }
  NO_UNROLL
  for (int plane0 = 0; plane0 < PLANES; plane0 += PLANES_IN_FLIGHT) {
    sum_t v[PLANES_IN_FLIGHT][VECTOR];
    UNROLL
    for (int i = 0; i < PLANES_IN_FLIGHT; ++i) {
      const i64 plane = MIN(part.begin + plane0 + i, planes - 1), packed_plane = picked_plane(&s, plane);
      GLOBAL const in_t* packed_src = packed + at + packed_plane * out_plane;
      GLOBAL const out_t* old_x = x + plane * in_plane + part.unit * VECTOR;
      UNROLL
      for (int u = 0; u < VECTOR; ++u)
        v[i][u] = packed_plane >= 0 && from[u] >= 0 ? LOAD(IN, packed_src, from[u])
                  : beta != 0                       ? beta * LOAD(OUT, old_x, u)
                                                    : 0;
    }
    UNROLL
    for (int i = 0; i < PLANES_IN_FLIGHT; ++i)
      if (part.begin + plane0 + i < planes)
        store_vector(x + (part.begin + plane0 + i) * in_plane + part.unit * VECTOR, v[i]);
  }
}

#else

KERNEL THREADS_PER_BLOCK(THREADS)
    pick_pixels(GLOBAL const in_t* RESTRICT x, GLOBAL in_t* RESTRICT packed, const i64 at, const PixelShape s) {
  x += s.x_at;
  const int row = s.out_w * s.vectors, size = s.out_h * row;
  const Part part = part_of(size);
  const int h = part.unit / row, row_unit = part.unit - h * row, w = row_unit / s.vectors, v = row_unit - w * s.vectors;
  const i64 planes = s.planes * s.out_d, in_plane = (i64)s.in_h * s.in_w * s.vectors;
  GLOBAL const unit_t* from = (GLOBAL const unit_t*)x + ((i64)h * s.stride_h * s.in_w + w * s.stride_w) * s.vectors + v;
  GLOBAL unit_t* to = (GLOBAL unit_t*)(packed + at) + part.unit;
  if (part.unit >= size) return;
  NO_UNROLL
  for (int plane0 = 0; plane0 < PLANES; plane0 += PLANES_IN_FLIGHT) {
    unit_t units[PLANES_IN_FLIGHT];
    UNROLL
    for (int i = 0; i < PLANES_IN_FLIGHT; ++i)
      units[i] = from[source_plane(&s, MIN(part.begin + plane0 + i, planes - 1)) * in_plane];
    UNROLL
    for (int i = 0; i < PLANES_IN_FLIGHT; ++i)
      if (part.begin + plane0 + i < planes) to[(part.begin + plane0 + i) * size] = units[i];
  }
}

/// x = the packed tensor at its pixels, beta * x elsewhere.
KERNEL THREADS_PER_BLOCK(THREADS) upsample_pixels(GLOBAL const in_t* RESTRICT packed, GLOBAL out_t* x, const i64 at,
                                                  const PixelShape s, const float beta) {
  x += s.x_at;
  const int row = s.in_w * s.vectors, size = s.in_h * row;
  const Part part = part_of(size);
  const int h = part.unit / row, row_unit = part.unit - h * row, w = row_unit / s.vectors, v = row_unit - w * s.vectors;
  const int p = h / s.stride_h, q = w / s.stride_w;
  const i64 planes = s.planes * s.in_d, out_plane = (i64)s.out_h * s.out_w * s.vectors;
  const int inside = p * s.stride_h == h && q * s.stride_w == w && p < s.out_h && q < s.out_w;
  GLOBAL const in_t* from = packed + at + (((i64)p * s.out_w + q) * s.vectors + v) * UNIT;
  if (part.unit >= size) return;
  NO_UNROLL
  for (int plane0 = 0; plane0 < PLANES; plane0 += PLANES_IN_FLIGHT) {
    sum_t sums[PLANES_IN_FLIGHT][UNIT];
    UNROLL
    for (int i = 0; i < PLANES_IN_FLIGHT; ++i) {
      const i64 plane = MIN(part.begin + plane0 + i, planes - 1), packed_plane = picked_plane(&s, plane);
      GLOBAL const out_t* old_x = x + (plane * size + part.unit) * UNIT;
      UNROLL
      for (int u = 0; u < UNIT; ++u) sums[i][u] = 0;
      if (inside && packed_plane >= 0)
        LOAD_UNIT(from + packed_plane * out_plane * UNIT, sums[i]);
      else if (beta != 0) {
        UNROLL
        for (int u = 0; u < UNIT; ++u) sums[i][u] = beta * LOAD(OUT, old_x, u);
      }
    }
    UNROLL
    for (int i = 0; i < PLANES_IN_FLIGHT; ++i)
      if (part.begin + plane0 + i < planes)
        STORE_UNIT(x + ((part.begin + plane0 + i) * size + part.unit) * UNIT, sums[i]);
  }
}

/// x = beta * x at the pixels that the convolution does not read.
KERNEL THREADS_PER_BLOCK(THREADS) scale_others(GLOBAL out_t* x, const PixelShape s, const float beta) {
  x += s.x_at;
  const int row = s.in_w * s.vectors, size = s.in_h * row;
  const Part part = part_of(size);
  const int h = part.unit / row, w = (part.unit - h * row) / s.vectors, p = h / s.stride_h, q = w / s.stride_w;
  const i64 planes = s.planes * s.in_d;
  if (part.unit >= size || (p * s.stride_h == h && q * s.stride_w == w && p < s.out_h && q < s.out_w)) return;
  GLOBAL out_t* to = x + (part.begin * size + part.unit) * UNIT;
  for (int i = 0; i < PLANES && part.begin + i < planes; ++i, to += (i64)size * UNIT) {
    sum_t sums[UNIT];
    UNROLL
    for (int u = 0; u < UNIT; ++u) sums[u] = beta != 0 ? beta * LOAD(OUT, to, u) : 0;
    STORE_UNIT(to, sums);
  }
}
#endif
