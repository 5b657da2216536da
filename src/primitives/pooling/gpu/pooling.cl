// Pooling (PASS 0) and its gradient (PASS 1), MAXIMUM 1 or 0: an average. An index is the position of a maximum in its
// window or in the image, the first of equal ones; NaN counts as -infinity.
// Options: IN = OUT (type), NUM (arithmetic), PASS, MAXIMUM.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/window.h"

/// out = scale * v + keep * out. `least`: the maximum of no elements. Indices of index_bytes each, 0: none.
typedef struct {
  scalar scale, keep, least;
  int inclusive, index_bytes, image;
} Formula;

#define NONE (-(scalar)FLOAT_OF_BITS(0x7f800000u))

/// How many positions a step along an axis skips.
INLINE u32 positions_along(const WindowShape* s, const Formula* f, const int axis) {
  return axis == 2  ? 1u
         : f->image ? (u32)s->axis[2].size * (axis == 0 ? (u32)s->axis[1].size : 1u)
                    : (u32)s->axis[2].length * (axis == 0 ? (u32)s->axis[1].length : 1u);
}

/// An element's position along an axis in window o.
INLINE u32 position_along(const WindowAxis* a, const Formula* f, int element, int o) {
  return (u32)(f->image ? element : element - o * a->stride + a->pad);
}

INLINE void write_result(GLOBAL u8* out, const WindowAt* out_at, const WindowPlace* at, const Formula* f,
                         const int unit, const num* v) {
  const i64 offset = window_offset(out_at, at);
  num old[VECTOR], result[VECTOR];
  if (f->keep != 0) read_unit(out, OUT_TYPE, offset, 1, unit, unit, old);
  UNROLL
  for (int k = 0; k < unit; ++k) result[k] = blend(f->scale, v[k], f->keep, f->keep != 0 ? old[k] : 0);
  write_unit(out, OUT_TYPE, offset, 1, unit, unit, result);
}

#if PASS == 0

INLINE void compute(GLOBAL const u8* in, const WindowAt* in_at, GLOBAL u8* out, const WindowAt* out_at,
                    GLOBAL u8* index, const WindowAt* index_at, const Formula* f, const WindowShape* s,
                    const WindowPlace* at, const int unit) {
  WindowRange r[3];
  int count = 1;
  UNROLL
  for (int k = 0; k < 3; ++k) {
    r[k] = elements_of(&s->axis[k], at->axis[k]);
    count *= MAX(r[k].end - r[k].first, 0);
  }
  num v[VECTOR], x[VECTOR];
  u32 found[VECTOR];
  const i64 plane = window_plane(in_at, at);
  u32 position = 0;
  UNROLL
  for (int k = 0; k < 3; ++k)
    position += positions_along(s, f, k) * position_along(&s->axis[k], f, r[k].first, at->axis[k]);
  UNROLL
  for (int k = 0; k < unit; ++k) {
    v[k] = MAXIMUM ? (count > 0 ? NONE : f->least) : 0;
    found[k] = count > 0 ? position : 0;
  }
  const u32 step_d = positions_along(s, f, 0), step_h = positions_along(s, f, 1);
  if (count > 0) {
    for (int d = r[0].first; d < r[0].end; ++d)
      for (int h = r[1].first; h < r[1].end; ++h) {
        i64 offset = plane + d * in_at->axis[0] + h * in_at->axis[1] + r[2].first * in_at->axis[2];
        u32 here = position + (u32)(d - r[0].first) * step_d + (u32)(h - r[1].first) * step_h;
        for (int w = r[2].first; w < r[2].end; ++w, offset += in_at->axis[2], ++here) {
          read_unit(in, IN_TYPE, offset, 1, unit, unit, x);
          UNROLL
          for (int k = 0; k < unit; ++k) {
#if MAXIMUM
            found[k] = x[k] > v[k] ? here : found[k];
            v[k] = x[k] > v[k] ? x[k] : v[k];
#else
            v[k] += x[k];
#endif
          }
        }
      }
  }
#if !MAXIMUM
  if (f->inclusive) count = s->axis[0].length * s->axis[1].length * s->axis[2].length;
  UNROLL
  for (int k = 0; k < unit; ++k) v[k] /= (scalar)MAX(count, 1);
#endif
  write_result(out, out_at, at, f, unit, v);
  if (f->index_bytes > 0) {
    const i64 offset = window_offset(index_at, at);
    UNROLL
    for (int k = 0; k < unit; ++k) store_bits(index, f->index_bytes, offset + k, found[k]);
  }
}

KERNEL THREADS_PER_BLOCK(WINDOW_THREADS)
    window_elements(const WindowShape s, GLOBAL const u8* in, const WindowAt in_at, GLOBAL u8* out,
                    const WindowAt out_at, GLOBAL u8* index, const WindowAt index_at, const Formula f) {
  WindowPlace at;
  if (window_place(&s, 0, 1, &at)) compute(in, &in_at, out, &out_at, index, &index_at, &f, &s, &at, 1);
}
KERNEL THREADS_PER_BLOCK(WINDOW_THREADS)
    window_channels(const WindowShape s, GLOBAL const u8* in, const WindowAt in_at, GLOBAL u8* out,
                    const WindowAt out_at, GLOBAL u8* index, const WindowAt index_at, const Formula f) {
  WindowPlace at;
  if (window_place(&s, 1, 1, &at)) compute(in, &in_at, out, &out_at, index, &index_at, &f, &s, &at, 1);
}
KERNEL THREADS_PER_BLOCK(WINDOW_THREADS)
    window_vectors(const WindowShape s, GLOBAL const u8* in, const WindowAt in_at, GLOBAL u8* out,
                   const WindowAt out_at, GLOBAL u8* index, const WindowAt index_at, const Formula f) {
  WindowPlace at;
  if (window_place(&s, 1, VECTOR, &at)) compute(in, &in_at, out, &out_at, index, &index_at, &f, &s, &at, VECTOR);
}

#else

#if MAXIMUM
/// Whether the element at `at` is the maximum of its window o: the first of the largest.
INLINE int is_maximum(GLOBAL const u8* x, const WindowAt* x_at, i64 offset, const WindowShape* s, const WindowPlace* at,
                      int od, int oh, int ow) {
  const i64 plane = offset - at->axis[0] * x_at->axis[0] - at->axis[1] * x_at->axis[1] - at->axis[2] * x_at->axis[2];
  const WindowRange rd = elements_of(&s->axis[0], od), rh = elements_of(&s->axis[1], oh),
                    rw = elements_of(&s->axis[2], ow);
  num mine = decode(IN_TYPE, load_bits(x, SIZE_OF(IN_TYPE), offset));
  if (!(mine > NONE)) mine = NONE;
  for (int d = rd.first; d < rd.end; ++d)
    for (int h = rh.first; h < rh.end; ++h)
      for (int w = rw.first; w < rw.end; ++w) {
        num other = decode(
            IN_TYPE, load_bits(x, SIZE_OF(IN_TYPE), plane + d * x_at->axis[0] + h * x_at->axis[1] + w * x_at->axis[2]));
        if (!(other > NONE)) other = NONE;
        const int before = d != at->axis[0] ? d < at->axis[0] : h != at->axis[1] ? h < at->axis[1] : w < at->axis[2];
        if (other > mine || (before && other == mine)) return 0;
      }
  return 1;
}
#endif

INLINE scalar weight_along(const WindowAxis* a, const Formula* f, int o) {
  const WindowRange r = elements_of(a, o);
  return (scalar)1 / (scalar)(f->inclusive ? a->length : r.end - r.first);
}

INLINE void compute(GLOBAL const u8* in, const WindowAt* in_at, GLOBAL u8* out, const WindowAt* out_at,
                    GLOBAL const u8* index, const WindowAt* index_at, GLOBAL const u8* x, const WindowAt* x_at,
                    const Formula* f, const WindowShape* s, const WindowPlace* at, const int unit) {
  WindowRange r[3];
  UNROLL
  for (int k = 0; k < 3; ++k) r[k] = windows_of(&s->axis[k], at->axis[k]);
  num v[VECTOR], gradient[VECTOR];
  UNROLL
  for (int k = 0; k < unit; ++k) v[k] = 0;
  const i64 plane = window_plane(in_at, at);
#if MAXIMUM
  const i64 index_plane = window_plane(index_at, at);
#endif
  for (int d = r[0].first; d < r[0].end; ++d)
    for (int h = r[1].first; h < r[1].end; ++h)
      for (int w = r[2].first; w < r[2].end; ++w) {
        read_unit(in, IN_TYPE, plane + d * in_at->axis[0] + h * in_at->axis[1] + w * in_at->axis[2], 1, unit, unit,
                  gradient);
#if MAXIMUM
        const u32 position = position_along(&s->axis[0], f, at->axis[0], d) * positions_along(s, f, 0) +
                             position_along(&s->axis[1], f, at->axis[1], h) * positions_along(s, f, 1) +
                             position_along(&s->axis[2], f, at->axis[2], w);
        const i64 indices = index_plane + d * index_at->axis[0] + h * index_at->axis[1] + w * index_at->axis[2];
        UNROLL
        for (int k = 0; k < unit; ++k) {
          const int mine = f->index_bytes > 0
                               ? load_bits(index, f->index_bytes, indices + k) == position
                               : is_maximum(x, x_at, window_offset(x_at, at) + k * x_at->channel, s, at, d, h, w);
          v[k] += mine ? gradient[k] : 0;
        }
#else
        const scalar weight =
            weight_along(&s->axis[0], f, d) * weight_along(&s->axis[1], f, h) * weight_along(&s->axis[2], f, w);
        UNROLL
        for (int k = 0; k < unit; ++k) v[k] += gradient[k] * weight;
#endif
      }
  write_result(out, out_at, at, f, unit, v);
}

KERNEL THREADS_PER_BLOCK(WINDOW_THREADS)
    window_elements(const WindowShape s, GLOBAL const u8* in, const WindowAt in_at, GLOBAL u8* out,
                    const WindowAt out_at, GLOBAL const u8* index, const WindowAt index_at, GLOBAL const u8* x,
                    const WindowAt x_at, const Formula f) {
  WindowPlace at;
  if (window_place(&s, 0, 1, &at)) compute(in, &in_at, out, &out_at, index, &index_at, x, &x_at, &f, &s, &at, 1);
}
KERNEL THREADS_PER_BLOCK(WINDOW_THREADS)
    window_channels(const WindowShape s, GLOBAL const u8* in, const WindowAt in_at, GLOBAL u8* out,
                    const WindowAt out_at, GLOBAL const u8* index, const WindowAt index_at, GLOBAL const u8* x,
                    const WindowAt x_at, const Formula f) {
  WindowPlace at;
  if (window_place(&s, 1, 1, &at)) compute(in, &in_at, out, &out_at, index, &index_at, x, &x_at, &f, &s, &at, 1);
}
KERNEL THREADS_PER_BLOCK(WINDOW_THREADS)
    window_vectors(const WindowShape s, GLOBAL const u8* in, const WindowAt in_at, GLOBAL u8* out,
                   const WindowAt out_at, GLOBAL const u8* index, const WindowAt index_at, GLOBAL const u8* x,
                   const WindowAt x_at, const Formula f) {
  WindowPlace at;
  if (window_place(&s, 1, VECTOR, &at))
    compute(in, &in_at, out, &out_at, index, &index_at, x, &x_at, &f, &s, &at, VECTOR);
}

#endif
