// The pixels of x that a pointwise convolution with strides meets, as a tensor of their own, and back: x from such a
// tensor, where all other pixels get zeros; or these alone. Up to three spatial dimensions. Told by -D: IN = OUT, the
// type; WIDE: with 1 channels are innermost and a unit is 16 bytes of them; with 2 rows are innermost and what is
// written are 16 bytes of them at a time; both where everything is aligned. SPDX-License-Identifier: MIT
#include "kernels/gpu/portable.h"
#include "kernels/gpu/vector.h"

#define THREADS 256
#define PLANES 16   // of a block, so that places are found once for all of them
#define TOGETHER 4  // on their way
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

/// Planes of a block, each of `size` units that are written, and the thread's unit.
typedef struct {
  i64 begin;
  int unit;
} Part;

INLINE Part part_of(int size) {
  const int chunks = CEIL_DIV(size, THREADS);
  Part p;
  p.begin = (i64)(BLOCK(0) / chunks) * PLANES, p.unit = BLOCK(0) % chunks * THREADS + THREAD(0);
  return p;
}

/// Where the picked plane that plane `plane` of x belongs to is, in planes, or -1.
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
    pick_pixels(GLOBAL const in_t* RESTRICT x, GLOBAL in_t* RESTRICT picked, const i64 at, const PixelShape s) {
  const i64 all = s.planes * s.out_d, in_plane = (i64)s.in_h * s.in_w;
  const int out_plane = s.out_h * s.out_w;
  const Part part = part_of(out_plane / VECTOR);
  if (part.unit * VECTOR >= out_plane) return;
  int from[VECTOR];
  UNROLL
  for (int u = 0; u < VECTOR; ++u) {
    const int pixel = part.unit * VECTOR + u, h = pixel / s.out_w;
    from[u] = h * s.stride_h * s.in_w + (pixel - h * s.out_w) * s.stride_w;
  }
  GLOBAL in_t* to = picked + at + part.unit * VECTOR;
  NO_UNROLL
  for (int first = 0; first < PLANES; first += TOGETHER) {
    sum_t v[TOGETHER][VECTOR];
    UNROLL
    for (int i = 0; i < TOGETHER; ++i) {
      GLOBAL const in_t* plane = x + source_plane(&s, MIN(part.begin + first + i, all - 1)) * in_plane;
      UNROLL
      for (int u = 0; u < VECTOR; ++u) v[i][u] = LOAD(IN, plane, from[u]);
    }
    UNROLL
    for (int i = 0; i < TOGETHER; ++i)
      if (part.begin + first + i < all) store_vector(to + (part.begin + first + i) * out_plane, v[i]);
  }
}

/// x = what was picked, elsewhere beta * x.
KERNEL THREADS_PER_BLOCK(THREADS) upsample_pixels(GLOBAL const in_t* RESTRICT picked, GLOBAL out_t* x, const i64 at,
                                                  const PixelShape s, const float beta) {
  const i64 all = s.planes * s.in_d, in_plane = (i64)s.in_h * s.in_w, out_plane = (i64)s.out_h * s.out_w;
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
  for (int first = 0; first < PLANES; first += TOGETHER) {
    sum_t v[TOGETHER][VECTOR];
    UNROLL
    for (int i = 0; i < TOGETHER; ++i) {
      const i64 plane = MIN(part.begin + first + i, all - 1), own = picked_plane(&s, plane);
      GLOBAL const in_t* origin = picked + at + own * out_plane;
      GLOBAL const out_t* old = x + plane * in_plane + part.unit * VECTOR;
      UNROLL
      for (int u = 0; u < VECTOR; ++u)
        v[i][u] = own >= 0 && from[u] >= 0 ? LOAD(IN, origin, from[u]) : beta != 0 ? beta * LOAD(OUT, old, u) : 0;
    }
    UNROLL
    for (int i = 0; i < TOGETHER; ++i)
      if (part.begin + first + i < all)
        store_vector(x + (part.begin + first + i) * in_plane + part.unit * VECTOR, v[i]);
  }
}

#else

KERNEL THREADS_PER_BLOCK(THREADS)
    pick_pixels(GLOBAL const in_t* RESTRICT x, GLOBAL in_t* RESTRICT picked, const i64 at, const PixelShape s) {
  const int row = s.out_w * s.vectors, size = s.out_h * row;
  const Part part = part_of(size);
  const int h = part.unit / row, rest = part.unit - h * row, w = rest / s.vectors, v = rest - w * s.vectors;
  const i64 all = s.planes * s.out_d, in_plane = (i64)s.in_h * s.in_w * s.vectors;
  GLOBAL const unit_t* from = (GLOBAL const unit_t*)x + ((i64)h * s.stride_h * s.in_w + w * s.stride_w) * s.vectors + v;
  GLOBAL unit_t* to = (GLOBAL unit_t*)(picked + at) + part.unit;
  if (part.unit >= size) return;
  NO_UNROLL
  for (int first = 0; first < PLANES; first += TOGETHER) {
    unit_t units[TOGETHER];
    UNROLL
    for (int i = 0; i < TOGETHER; ++i)
      units[i] = from[source_plane(&s, MIN(part.begin + first + i, all - 1)) * in_plane];
    UNROLL
    for (int i = 0; i < TOGETHER; ++i)
      if (part.begin + first + i < all) to[(part.begin + first + i) * size] = units[i];
  }
}

/// x = what was picked, elsewhere beta * x.
KERNEL THREADS_PER_BLOCK(THREADS) upsample_pixels(GLOBAL const in_t* RESTRICT picked, GLOBAL out_t* x, const i64 at,
                                                  const PixelShape s, const float beta) {
  const int row = s.in_w * s.vectors, size = s.in_h * row;
  const Part part = part_of(size);
  const int h = part.unit / row, rest = part.unit - h * row, w = rest / s.vectors, v = rest - w * s.vectors;
  const int p = h / s.stride_h, q = w / s.stride_w;
  const i64 all = s.planes * s.in_d, out_plane = (i64)s.out_h * s.out_w * s.vectors;
  const int inside = p * s.stride_h == h && q * s.stride_w == w && p < s.out_h && q < s.out_w;
  GLOBAL const in_t* from = picked + at + (((i64)p * s.out_w + q) * s.vectors + v) * UNIT;
  if (part.unit >= size) return;
  NO_UNROLL
  for (int first = 0; first < PLANES; first += TOGETHER) {
    sum_t sums[TOGETHER][UNIT];
    UNROLL
    for (int i = 0; i < TOGETHER; ++i) {
      const i64 plane = MIN(part.begin + first + i, all - 1), own = picked_plane(&s, plane);
      GLOBAL const out_t* old = x + (plane * size + part.unit) * UNIT;
      UNROLL
      for (int u = 0; u < UNIT; ++u) sums[i][u] = 0;
      if (inside && own >= 0)
        LOAD_UNIT(from + own * out_plane * UNIT, sums[i]);
      else if (beta != 0) {
        UNROLL
        for (int u = 0; u < UNIT; ++u) sums[i][u] = beta * LOAD(OUT, old, u);
      }
    }
    UNROLL
    for (int i = 0; i < TOGETHER; ++i)
      if (part.begin + first + i < all) STORE_UNIT(x + ((part.begin + first + i) * size + part.unit) * UNIT, sums[i]);
  }
}

/// x = beta * x where nothing was picked.
KERNEL THREADS_PER_BLOCK(THREADS) scale_others(GLOBAL out_t* x, const PixelShape s, const float beta) {
  const int row = s.in_w * s.vectors, size = s.in_h * row;
  const Part part = part_of(size);
  const int h = part.unit / row, w = (part.unit - h * row) / s.vectors, p = h / s.stride_h, q = w / s.stride_w;
  const i64 all = s.planes * s.in_d;
  if (part.unit >= size || (p * s.stride_h == h && q * s.stride_w == w && p < s.out_h && q < s.out_w)) return;
  GLOBAL out_t* to = x + (part.begin * size + part.unit) * UNIT;
  for (int i = 0; i < PLANES && part.begin + i < all; ++i, to += (i64)size * UNIT) {
    sum_t sums[UNIT];
    UNROLL
    for (int u = 0; u < UNIT; ++u) sums[u] = beta != 0 ? beta * LOAD(OUT, to, u) : 0;
    STORE_UNIT(to, sums);
  }
}
#endif
