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

/// The tensors of a launch.
typedef struct {
  GLOBAL const u8* in;
  GLOBAL u8* out;
  GLOBAL u8* index;
  GLOBAL const u8* x;
  const WindowAt *in_at, *out_at, *index_at, *x_at;
  const WindowShape* shape;
  const WindowAxis* axis;
  const Formula* f;
} Tensors;

#define NONE (-(scalar)FLOAT_OF_BITS(0x7f800000u))
#define WINDOW_LOADS 4  // elements of a window that a thread has in flight where threads are few
#define RUN_WINDOWS 3   // windows that a run's thread has in flight

/// How many positions a step along an axis skips.
INLINE u32 positions_along(const Tensors* t, const int k) {
  const WindowAxis* a = t->axis;
  return k == 2        ? 1u
         : t->f->image ? (u32)a[2].size * (k == 0 ? (u32)a[1].size : 1u)
                       : (u32)a[2].length * (k == 0 ? (u32)a[1].length : 1u);
}

/// An element's position along an axis in window o.
INLINE u32 position_along(const Tensors* t, const int k, int element, int o) {
  const WindowAxis* a = &t->axis[k];
  return (u32)(t->f->image ? element : element - o * (int)a->stride.divisor + a->pad);
}

/// Writes n of `unit` neighbouring results at an offset.
INLINE void write_results(const Tensors* t, i64 offset, const int unit, int n, num* v) {
  num old[8];
  const Formula* f = t->f;
  if (f->keep != 0) read_unit(t->out, OUT_TYPE, offset, 1, unit, n, old);
  UNROLL
  for (int k = 0; k < unit; ++k) v[k] = blend(f->scale, v[k], f->keep, f->keep != 0 ? old[k] : 0);
  write_unit(t->out, OUT_TYPE, offset, 1, unit, n, v);
}

#if PASS == 0

/// What a thread has found of a window of each of `unit` channels.
typedef struct {
  num v[VECTOR];
  u32 found[VECTOR];
  int count;  // elements of the window
} Found;

/// Reduces every `lanes`-th element of the window's rows from number `lane` on, `loads` at a time.
INLINE void reduce(const Tensors* t, const WindowPlace* at, const int unit, const int loads, int lane, int lanes,
                   Found* found) {
  WindowRange r[3];
  u32 position = (u32)lane;
  found->count = 1;
  UNROLL
  for (int k = 0; k < 3; ++k) {
    r[k] = elements_of(&t->axis[k], at->axis[k]);
    found->count *= MAX(r[k].end - r[k].first, 0);
    position += positions_along(t, k) * position_along(t, k, r[k].first, at->axis[k]);
  }
  UNROLL
  for (int k = 0; k < unit; ++k) {
    found->v[k] = MAXIMUM ? NONE : 0;
    found->found[k] = position;
  }
  if (found->count == 0) return;
  const u32 step_d = positions_along(t, 0), step_h = positions_along(t, 1);
  const i64 step = lanes * t->in_at->axis[2];
  const i64 first = window_plane(t->in_at, at) + (r[2].first + lane) * t->in_at->axis[2];
  for (int d = r[0].first; d < r[0].end; ++d)
    for (int h = r[1].first; h < r[1].end; ++h) {
      i64 offset = first + d * t->in_at->axis[0] + h * t->in_at->axis[1];
      u32 here = position + (u32)(d - r[0].first) * step_d + (u32)(h - r[1].first) * step_h;
      for (int w = r[2].first + lane; w < r[2].end; w += loads * lanes) {
        num x[WINDOW_LOADS][VECTOR];
        UNROLL
        for (int i = 0; i < loads; ++i)
          if (loads == 1 || w + i * lanes < r[2].end) read_unit(t->in, IN_TYPE, offset + i * step, 1, unit, unit, x[i]);
        UNROLL
        for (int i = 0; i < loads; ++i) {
          if (loads > 1 && w + i * lanes >= r[2].end) continue;
          UNROLL
          for (int k = 0; k < unit; ++k) {
            const int is_larger = MAXIMUM && x[i][k] > found->v[k];
            found->found[k] = is_larger ? here + (u32)(i * lanes) : found->found[k];
            found->v[k] = !MAXIMUM ? found->v[k] + x[i][k] : is_larger ? x[i][k] : found->v[k];
          }
        }
        offset += loads * step;
        here += (u32)(loads * lanes);
      }
    }
}

/// The result of a window of `count` elements.
INLINE num result_of(const Tensors* t, num v, int count) {
#if MAXIMUM
  return count > 0 ? v : t->f->least;
#else
  if (t->f->inclusive) count = t->axis[0].length * t->axis[1].length * t->axis[2].length;
  return v / (scalar)MAX(count, 1);
#endif
}

INLINE void write_index(const Tensors* t, i64 offset, u32 found, int count) {
  if (t->f->index_bytes > 0) store_bits(t->index, t->f->index_bytes, offset, count > 0 ? found : 0);
}

INLINE void compute(const Tensors* t, const int along_channels, const int unit) {
  if (window_thread() >= t->shape->count) return;
  const WindowPlace at = window_place(t->shape, along_channels, unit, window_thread());
  Found found;
  reduce(t, &at, unit, unit == 1 ? WINDOW_LOADS : 1, 0, 1, &found);
  UNROLL
  for (int k = 0; k < unit; ++k) {
    found.v[k] = result_of(t, found.v[k], found.count);
    write_index(t, window_offset(t->index_at, &at) + k, found.found[k], found.count);
  }
  write_results(t, window_offset(t->out_at, &at), unit, unit, found.v);
}

INLINE void compute_run(const Tensors* t) {
  const int first = window_thread() * kWindowRun, n = MIN(kWindowRun, t->shape->count - first);
  if (n <= 0) return;
  WindowPlace at = window_place(t->shape, 0, 1, first);
  num v[kWindowRun];
  UNROLL
  for (int k = 0; k < kWindowRun; ++k) {
    Found found;
    if (k >= n) break;
    reduce(t, &at, 1, 1, 0, 1, &found);
    v[k] = result_of(t, found.v[0], found.count);
    write_index(t, t->index_at->first + first + k, found.found[0], found.count);
    next_window_place(t->shape, &at);
  }
  write_results(t, t->out_at->first + first, kWindowRun, n, v);
}

#define PARAMETERS                                                                                           \
  const WindowShape shape, const WindowAxes axes, GLOBAL const u8 *in, const WindowAt in_at, GLOBAL u8 *out, \
      const WindowAt out_at, GLOBAL u8 *index, const WindowAt index_at, const Formula f
#define TENSORS \
  { in, out, index, in, &in_at, &out_at, &index_at, &in_at, &shape, axes.axis, &f }

WINDOW_KERNEL window_lanes(PARAMETERS) {
  const Tensors t = TENSORS;
  SHARED num values[kWindowThreads];
  SHARED u32 positions[kWindowThreads];
  const int thread = THREAD(0), lanes = shape.lanes, lane = thread & (lanes - 1);
  const int number = BLOCK(0) * (kWindowThreads / lanes) + thread / lanes;
  Found found;
  const WindowPlace at = window_place(&shape, 0, 1, MIN(number, shape.count - 1));
  reduce(&t, &at, 1, 1, lane, lanes, &found);
  values[thread] = found.v[0];
  positions[thread] = found.found[0];
  for (int step = lanes / 2; step > 0; step /= 2) {
    BARRIER();
    if (lane < step) {
      const num other = values[thread + step];
#if MAXIMUM
      const int better =
          other > values[thread] || (other == values[thread] && positions[thread + step] < positions[thread]);
      if (better) positions[thread] = positions[thread + step];
      if (better) values[thread] = other;
#else
      values[thread] += other;
#endif
    }
  }
  if (lane > 0 || number >= shape.count) return;
  num v[1];
  v[0] = result_of(&t, values[thread], found.count);
  write_index(&t, window_offset(&index_at, &at), positions[thread], found.count);
  write_results(&t, window_offset(&out_at, &at), 1, 1, v);
}

#else

#if MAXIMUM
/// An element as maxima compare it.
INLINE num compared(const Tensors* t, i64 offset) {
  const num v = decode(IN_TYPE, load_bits(t->x, SIZE_OF(IN_TYPE), offset));
  return v > NONE ? v : NONE;
}

/// Whether the element at `at` is the maximum of its window o: the first of the largest.
INLINE int is_maximum(const Tensors* t, const WindowPlace* at, const int* o) {
  const i64* step = t->x_at->axis;
  const i64 plane = window_plane(t->x_at, at);
  const num mine = compared(t, window_offset(t->x_at, at));
  WindowRange r[3];
  UNROLL
  for (int k = 0; k < 3; ++k) r[k] = elements_of(&t->axis[k], o[k]);
  for (int d = r[0].first; d < r[0].end; ++d)
    for (int h = r[1].first; h < r[1].end; ++h)
      for (int w = r[2].first; w < r[2].end; ++w) {
        const num other = compared(t, plane + d * step[0] + h * step[1] + w * step[2]);
        const int before = d != at->axis[0] ? d < at->axis[0] : h != at->axis[1] ? h < at->axis[1] : w < at->axis[2];
        if (other > mine || (before && other == mine)) return 0;
      }
  return 1;
}
#else
/// The part of window o's gradient that an element has along axis k. `whole`: of windows without padding.
INLINE scalar weight_along(const Tensors* t, const int k, int o, scalar whole) {
  const WindowRange r = elements_of(&t->axis[k], o);
  const int elements = t->f->inclusive ? t->axis[k].length : r.end - r.first;
  return elements == t->axis[k].length ? whole : (scalar)1 / (scalar)MAX(elements, 1);
}
#endif

/// The sums of the windows that cover `unit` channels; of maxima without indices.
INLINE void gather(const Tensors* t, const WindowPlace* at, const int unit, num* v) {
  WindowRange r[3];
  UNROLL
  for (int k = 0; k < 3; ++k) r[k] = windows_of(&t->axis[k], at->axis[k]);
  UNROLL
  for (int k = 0; k < unit; ++k) v[k] = 0;
  const i64* step = t->in_at->axis;
  const i64 plane = window_plane(t->in_at, at);
#if !MAXIMUM
  scalar whole[3];
  UNROLL
  for (int k = 0; k < 3; ++k) whole[k] = (scalar)1 / (scalar)t->axis[k].length;
#endif
  int o[3];
  for (o[0] = r[0].first; o[0] < r[0].end; ++o[0])
    for (o[1] = r[1].first; o[1] < r[1].end; ++o[1])
      for (o[2] = r[2].first; o[2] < r[2].end; ++o[2]) {
        num gradient[VECTOR];
        read_unit(t->in, IN_TYPE, plane + o[0] * step[0] + o[1] * step[1] + o[2] * step[2], 1, unit, unit, gradient);
#if MAXIMUM
        UNROLL
        for (int k = 0; k < unit; ++k) {
          WindowPlace channel = *at;
          channel.channel += k;
          v[k] += is_maximum(t, &channel, o) ? gradient[k] : 0;
        }
#else
        const scalar weight = weight_along(t, 0, o[0], whole[0]) * weight_along(t, 1, o[1], whole[1]) *
                              weight_along(t, 2, o[2], whole[2]);
        UNROLL
        for (int k = 0; k < unit; ++k) v[k] += gradient[k] * weight;
#endif
      }
}

/// `count` neighbours in a row of elements, whose sums follow those of `done` others, and the windows along the row
/// that cover them.
typedef struct {
  int column, count, done;
  WindowRange windows;
} RowPart;

#if MAXIMUM
/// Adds the windows in row h of plane d whose indices, of `bytes` each, are the position of an element of the part.
INLINE void add_windows(const Tensors* t, const WindowPlace* at, const RowPart* part, int d, int h, const int run,
                        const int bytes, num* v) {
  const int size = SIZE_OF(IN_TYPE), first = part->windows.first, end = part->windows.end;
  const i64 *step = t->in_at->axis, *index_step = t->index_at->axis;
  GLOBAL const u8* in = t->in + (window_plane(t->in_at, at) + d * step[0] + h * step[1] + first * step[2]) * size;
  GLOBAL const u8* index =
      t->index +
      (window_plane(t->index_at, at) + d * index_step[0] + h * index_step[1] + first * index_step[2]) * bytes;
  const u32 here = position_along(t, 0, at->axis[0], d) * positions_along(t, 0) +
                   position_along(t, 1, at->axis[1], h) * positions_along(t, 1);
  const u32 limit = t->f->image ? 0x7fffffffu : (u32)t->axis[2].length;
  const u32 slide = t->f->image ? 0 : t->axis[2].stride.divisor;
  u32 position = position_along(t, 2, part->column, first);
  NO_UNROLL
  for (int o = first; o < end; o += RUN_WINDOWS) {
    u64 gradient[RUN_WINDOWS], found[RUN_WINDOWS];
    UNROLL
    for (int i = 0; i < RUN_WINDOWS; ++i) {
      gradient[i] = found[i] = 0;
      if (o + i < end) gradient[i] = load_bits(in, size, 0);
      if (o + i < end) found[i] = load_bits(index, bytes, 0);
      in += step[2] * size;
      index += index_step[2] * bytes;
    }
    UNROLL
    for (int i = 0; i < RUN_WINDOWS; ++i) {
      const u32 k = (u32)found[i] - here - position;  // the element whose position it is
      const int is_found =
          o + i < end && k < (u32)part->count && position + k < limit && (bytes < 8 || found[i] >> 31 == 0);
      const int element = is_found ? (int)k + part->done : -1;
      UNROLL
      for (int e = 0; e < run; ++e) v[e] += element == e ? decode(IN_TYPE, gradient[i]) : 0;
      position -= slide;
    }
  }
}

/// The sums of the windows whose indices, of `bytes` each, are the position of an element, for `unit` channels.
INLINE void gather_channels(const Tensors* t, const WindowPlace* at, const int unit, const int bytes, num* v) {
  const int size = SIZE_OF(IN_TYPE);
  WindowRange r[3];
  UNROLL
  for (int k = 0; k < 3; ++k) r[k] = windows_of(&t->axis[k], at->axis[k]);
  UNROLL
  for (int k = 0; k < unit; ++k) v[k] = 0;
  const u32 step_d = positions_along(t, 0), step_h = positions_along(t, 1);
  const i64 *step = t->in_at->axis, *index_step = t->index_at->axis;
  const i64 plane = window_plane(t->in_at, at) + r[2].first * step[2];
  const i64 indices = window_plane(t->index_at, at) + r[2].first * index_step[2];
  const u32 first_position = position_along(t, 2, at->axis[2], r[2].first);
  const u32 slide = t->f->image ? 0 : t->axis[2].stride.divisor;
  NO_UNROLL
  for (int d = r[0].first; d < r[0].end; ++d) {
    NO_UNROLL
    for (int h = r[1].first; h < r[1].end; ++h) {
      GLOBAL const u8* in = t->in + (plane + d * step[0] + h * step[1]) * size;
      GLOBAL const u8* index = t->index + (indices + d * index_step[0] + h * index_step[1]) * bytes;
      u32 position = first_position + position_along(t, 0, at->axis[0], d) * step_d +
                     position_along(t, 1, at->axis[1], h) * step_h;
      _Pragma("unroll 2") for (int w = r[2].first; w < r[2].end; ++w) {
        num gradient[VECTOR];
        u32 packed[2 * VECTOR];
        read_unit(in, IN_TYPE, 0, 1, unit, unit, gradient);
        if (unit * bytes >= 4) load_u32s(index, unit * bytes / 4, packed);
        UNROLL
        for (int k = 0; k < unit; ++k) {
          const u64 found = unit * bytes >= 4 ? unpack_bits(packed, bytes, k) : load_bits(index, bytes, k);
          v[k] += found == position ? gradient[k] : 0;
        }
        in += step[2] * size;
        index += index_step[2] * bytes;
        position -= slide;
      }
    }
  }
}
#else
/// Adds the windows in row h of plane d that cover elements of the part.
INLINE void add_windows(const Tensors* t, const WindowPlace* at, const RowPart* part, int d, int h, const int run,
                        const int bytes, num* v) {
  const int size = SIZE_OF(IN_TYPE), end = part->windows.end;
  const i64* step = t->in_at->axis;
  scalar whole[3];
  UNROLL
  for (int k = 0; k < 3; ++k) whole[k] = (scalar)1 / (scalar)t->axis[k].length;
  const scalar weight_dh = weight_along(t, 0, d, whole[0]) * weight_along(t, 1, h, whole[1]);
  GLOBAL const u8* in =
      t->in + (window_plane(t->in_at, at) + d * step[0] + h * step[1] + part->windows.first * step[2]) * size;
  NO_UNROLL
  for (int o = part->windows.first; o < end; o += RUN_WINDOWS) {
    num gradient[RUN_WINDOWS];
    UNROLL
    for (int i = 0; i < RUN_WINDOWS; ++i) {
      gradient[i] = o + i < end ? decode(IN_TYPE, load_bits(in, size, 0)) : 0;
      in += step[2] * size;
    }
    UNROLL
    for (int i = 0; i < RUN_WINDOWS; ++i) {
      const WindowRange covered = elements_of(&t->axis[2], o + i);
      const int from = MAX(covered.first - part->column, 0) + part->done,
                to = o + i < end ? MIN(covered.end - part->column, part->count) + part->done : 0;
      const scalar weight = weight_dh * weight_along(t, 2, o + i, whole[2]);
      // One rounding, as in gather(), which serves the same tensors at other addresses.
      UNROLL
      for (int e = 0; e < run; ++e) v[e] += (e >= from && e < to ? gradient[i] : 0) * weight;
    }
  }
}
#endif

/// The sums of n neighbours along rows, at most `run`. Those in one row of elements read each of their windows once.
INLINE void gather_run(const Tensors* t, WindowPlace at, int n, const int run, const int bytes, num* v) {
  UNROLL
  for (int k = 0; k < run; ++k) v[k] = 0;
  NO_UNROLL
  for (int done = 0; done < n;) {
    const int column = at.axis[2], count = run == 1 ? 1 : MIN(n - done, t->axis[2].size - column);
    const WindowRange depth = windows_of(&t->axis[0], at.axis[0]), rows = windows_of(&t->axis[1], at.axis[1]);
    const RowPart part = {
        column, count, done, {windows_of(&t->axis[2], column).first, windows_of(&t->axis[2], column + count - 1).end}};
    NO_UNROLL
    for (int d = depth.first; d < depth.end; ++d) {
      NO_UNROLL
      for (int h = rows.first; h < rows.end; ++h) add_windows(t, &at, &part, d, h, run, bytes, v);
    }
    done += count;
    at.axis[2] += count - 1;
    if (done < n) next_window_place(t->shape, &at);
  }
}

/// The sums of `unit` channels of an element, or of n neighbours along rows, at most `run`.
INLINE void gather_all(const Tensors* t, WindowPlace at, int n, const int run, const int unit, num* v) {
#if MAXIMUM
  const int bytes = t->f->index_bytes;
#define WITH_INDICES(size)                    \
  if (bytes == size) {                        \
    if (unit == 1)                            \
      gather_run(t, at, n, run, size, v);     \
    else                                      \
      gather_channels(t, &at, unit, size, v); \
    return;                                   \
  }
  WITH_INDICES(1)
  WITH_INDICES(2)
  WITH_INDICES(4)
  WITH_INDICES(8)
#else
  if (unit == 1) {
    gather_run(t, at, n, run, 0, v);
    return;
  }
#endif
  UNROLL
  for (int k = 0; k < run; ++k) {
    if (k >= n) break;
    gather(t, &at, unit, v + k);
    next_window_place(t->shape, &at);
  }
}

INLINE void compute(const Tensors* t, const int along_channels, const int unit) {
  if (window_thread() >= t->shape->count) return;
  const WindowPlace at = window_place(t->shape, along_channels, unit, window_thread());
  num v[VECTOR];
  gather_all(t, at, 1, 1, unit, v);
  write_results(t, window_offset(t->out_at, &at), unit, unit, v);
}

INLINE void compute_run(const Tensors* t) {
  const int first = window_thread() * kWindowRun, n = MIN(kWindowRun, t->shape->count - first);
  if (n <= 0) return;
  num v[kWindowRun];
  gather_all(t, window_place(t->shape, 0, 1, first), n, kWindowRun, 1, v);
  write_results(t, t->out_at->first + first, kWindowRun, n, v);
}

#define PARAMETERS                                                                                               \
  const WindowShape shape, const WindowAxes axes, GLOBAL const u8 *in, const WindowAt in_at, GLOBAL u8 *out,     \
      const WindowAt out_at, GLOBAL u8 *index, const WindowAt index_at, GLOBAL const u8 *x, const WindowAt x_at, \
      const Formula f
#define TENSORS \
  { in, out, index, x, &in_at, &out_at, &index_at, &x_at, &shape, axes.axis, &f }

#endif

WINDOW_KERNEL window_elements(PARAMETERS) {
  const Tensors t = TENSORS;
  compute(&t, 0, 1);
}
WINDOW_KERNEL window_runs(PARAMETERS) {
  const Tensors t = TENSORS;
  compute_run(&t);
}
WINDOW_KERNEL window_channels(PARAMETERS) {
  const Tensors t = TENSORS;
  compute(&t, 1, 1);
}
WINDOW_KERNEL window_vectors(PARAMETERS) {
  const Tensors t = TENSORS;
  compute(&t, 1, VECTOR);
}
