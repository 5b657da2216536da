// Local response normalisation for tensors of any strides. A thread computes f.chunk elements along the first axis of
// the window, in lrn_vectors each a vector of neighbours along another dimension. With RING it keeps the sums over the
// window's other axes of the last RING positions, so that it computes each once; else it sums all of each window.
// Options: IN = OUT (type), NUM (arithmetic), BACKWARD, SCALE (there is a buffer of scales), AXES (of the window, 1 to
// 3), RING (the window's n, or 0).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/walk.h"
#include "kernels/gpu/portable/functions.h"

// Operands: x, y, scale; or x, dy, y, scale, dx.
#if BACKWARD && SCALE
#define INPUTS 4
#elif BACKWARD
#define INPUTS 3
#else
#define INPUTS 1
#endif
#if SCALE && !BACKWARD
#define OUTPUTS 2
#else
#define OUTPUTS 1
#endif
#include "kernels/gpu/portable/operands.h"

#define THREADS 256
#if !defined(__HIP__) && !defined(__HIPCC_RTC__)
#define ROOT(v) sqrt(v)
#elif NUMBERS == NUMBERS_double
#define ROOT(v) __builtin_sqrt(v)
#else
#define ROOT(v) __builtin_sqrtf(v)
#endif
#if NUMBERS == NUMBERS_double
#define FMA_NUM(a, b, c) FMA64(a, b, c)
#else
#define FMA_NUM(a, b, c) FMA(a, b, c)
#endif

/// exponent: 0 for beta 3/4, 1 for 1/2, 2 for 1, 3 for any.
typedef struct {
  scalar k, factor, ratio, beta;
  int n, exponent, chunk;
} Formula;

/// A unit's index along an axis is unit / below % size; the first axis has `size` chunks. extent: elements.
typedef struct {
  Divider below[3], size[3];
  int extent[3];
} Axes;

/// Element strides along the axes; of the result along the first one.
typedef struct {
  i64 x[3], dy[3], y[3], result;
} Steps;

typedef struct {
  const Operands* p;
  const Formula* f;
  const Axes* a;
  const Steps* s;
} Call;

/// Elements of the window of element `at`, relative to it; `mirrored`: of those whose window has it.
typedef struct {
  int first, last;
} Range;
INLINE Range range_of(const Call* c, int axis, int at, int mirrored) {
  const int less = (c->f->n - 1) / 2, more = c->f->n / 2;
  Range r;
  r.first = MAX(mirrored ? -more : -less, -at);
  r.last = MIN(mirrored ? less : more, c->a->extent[axis] - 1 - at);
  return r;
}

/// base ^ exponent: the exponent of two is exact, so that errors do not grow with it.
INLINE num any_power(num base, num exponent) {
  const num infinity = NUM_OF_BITS((num_int)(2 * BIAS + 1) << FRACTION);
  if (exponent == 0) return 1;
  if (base == 0) return exponent < 0 ? infinity : 0;
  if (base == infinity) return exponent < 0 ? 0 : infinity;
  if (!(base > 0)) return (base - base) / (base - base);
  const int subnormal = base < power_of_two(1 - BIAS);
  const num_int bits = BITS_OF_NUM(subnormal ? base * power_of_two(FRACTION + 1) : base);
  const num_int n = (bits - BITS_OF_NUM((num)0.70710678118654752440)) >> FRACTION;
  const num m = NUM_OF_BITS(bits - n * ((num_int)1 << FRACTION));  // in [sqrt(1/2), sqrt(2))
  const num s = (m - 1) / (m + 1), q = s * s, double_s = s + s;
  const num e = (num)(subnormal ? n - (FRACTION + 1) : n), high = exponent * e, low = FMA_NUM(exponent, e, -high);
  const num limit = 2 * BIAS - 4, whole = (num)ROUND(MIN(MAX(high, -limit), limit));
  const num rest = MIN(MAX((high - whole) + low, -limit), limit);
  const num result =
      exp_of(rest * (num)0.69314718055994530942 + exponent * (double_s + double_s * (q * log_series(q))));
  const num_int first = (num_int)whole / 2;
  return result * power_of_two(first) * power_of_two((num_int)whole - first);
}

/// scale ^ -beta.
INLINE num normaliser(const Formula* f, num scale) {
  if (f->exponent == 3) return any_power(scale, -f->beta);
  if (f->exponent == 2) return 1 / scale;
  const num r = ROOT(scale);
  return 1 / (f->exponent == 1 ? r : r * ROOT(r));
}

INLINE void clear(const int unit, num* v) {
  UNROLL
  for (int i = 0; i < unit; ++i) v[i] = 0;
}

INLINE void add_squares(const Call* c, i64 x, const int unit, num* sum) {
  num v[VECTOR];
  read_unit(c->p->in[0], IN_TYPE, x, c->p->at[0]->step, unit, unit, v);
  UNROLL
  for (int i = 0; i < unit; ++i) sum[i] += v[i] * v[i];
}

/// Squares over all axes of the window but the first; x: the offset of the element at `at`.
INLINE void add_slice_of_squares(const Call* c, const int* at, i64 x, const int unit, num* sum) {
#if AXES == 1
  add_squares(c, x, unit, sum);
#else
  const Range r = range_of(c, 1, at[1], 0);
  for (int i = r.first; i <= r.last; ++i) {
    const i64 row = x + i * c->s->x[1];
#if AXES == 2
    add_squares(c, row, unit, sum);
#else
    const Range q = range_of(c, 2, at[2], 0);
    for (int j = q.first; j <= q.last; ++j) add_squares(c, row + j * c->s->x[2], unit, sum);
#endif
  }
#endif
}

INLINE void compute_scale(const Call* c, const int* at, i64 x, const int unit, num* scale) {
  clear(unit, scale);
  const Range r = range_of(c, 0, at[0], 0);
  for (int i = r.first; i <= r.last; ++i) add_slice_of_squares(c, at, x + i * c->s->x[0], unit, scale);
  UNROLL
  for (int i = 0; i < unit; ++i) scale[i] = c->f->k + c->f->factor * scale[i];
}

#if BACKWARD
/// Offsets of an element in the inputs.
typedef struct {
  i64 x, dy, y;
} Offsets;

INLINE Offsets moved(const Call* c, Offsets o, const int axis, int by) {
  o.x += by * c->s->x[axis];
  o.dy += by * c->s->dy[axis];
  o.y += by * c->s->y[axis];
  return o;
}

INLINE void read_scale(const Call* c, const int* at, Offsets o, const int unit, num* scale) {
#if SCALE
  read_unit(c->p->in[3], IN_TYPE, o.y, c->p->at[3]->step, unit, unit, scale);
#else
  compute_scale(c, at, o.x, unit, scale);
#endif
}

INLINE void add_products(const Call* c, const int* at, Offsets o, const int unit, num* sum) {
  num dy[VECTOR], y[VECTOR], scale[VECTOR];
  read_unit(c->p->in[1], IN_TYPE, o.dy, c->p->at[1]->step, unit, unit, dy);
  read_unit(c->p->in[2], IN_TYPE, o.y, c->p->at[2]->step, unit, unit, y);
  read_scale(c, at, o, unit, scale);
  UNROLL
  for (int i = 0; i < unit; ++i) sum[i] += y[i] * dy[i] / scale[i];
}

/// The same as add_slice_of_squares for products.
INLINE void add_slice(const Call* c, const int* at, Offsets o, const int unit, num* sum) {
#if AXES == 1
  add_products(c, at, o, unit, sum);
#else
  const Range r = range_of(c, 1, at[1], 1);
  for (int i = r.first; i <= r.last; ++i) {
#if AXES == 2
    const int to[2] = {at[0], at[1] + i};
    add_products(c, to, moved(c, o, 1, i), unit, sum);
#else
    const Range q = range_of(c, 2, at[2], 1);
    for (int j = q.first; j <= q.last; ++j) {
      const int to[3] = {at[0], at[1] + i, at[2] + j};
      add_products(c, to, moved(c, moved(c, o, 1, i), 2, j), unit, sum);
    }
#endif
  }
#endif
}
#else
typedef struct {
  i64 x;
} Offsets;
INLINE Offsets moved(const Call* c, Offsets o, const int axis, int by) {
  o.x += by * c->s->x[axis];
  return o;
}
INLINE void add_slice(const Call* c, const int* at, Offsets o, const int unit, num* sum) {
  add_slice_of_squares(c, at, o.x, unit, sum);
}
#endif

/// Computes the results of the element at `at` from its sum; result: its offset there.
INLINE void finish(const Call* c, const int* at, Offsets o, i64 result, const int unit, const num* sum) {
  num x[VECTOR], out[VECTOR], scale[VECTOR];
  read_unit(c->p->in[0], IN_TYPE, o.x, c->p->at[0]->step, unit, unit, x);
#if BACKWARD
  num dy[VECTOR];
  read_unit(c->p->in[1], IN_TYPE, o.dy, c->p->at[1]->step, unit, unit, dy);
  read_scale(c, at, o, unit, scale);
  UNROLL
  for (int i = 0; i < unit; ++i) out[i] = dy[i] * normaliser(c->f, scale[i]) - x[i] * c->f->ratio * sum[i];
#else
  UNROLL
  for (int i = 0; i < unit; ++i) {
    scale[i] = c->f->k + c->f->factor * sum[i];
    out[i] = x[i] * normaliser(c->f, scale[i]);
  }
#if SCALE
  write_unit(c->p->out[1], OUT_TYPE, result, c->p->at[INPUTS + 1]->step, unit, unit, scale);
#endif
#endif
  write_unit(c->p->out[0], OUT_TYPE, result, c->p->at[INPUTS]->step, unit, unit, out);
}

INLINE void normalise(const Call* c, const Walk* w, const int unit) {
  const int index = BLOCK(0) * THREADS + THREAD(0);
  if (index >= w->count) return;
  i64 offset[OPERANDS];
  locate(w, index, c->p->at, OPERANDS, offset);
  int at[AXES];
  UNROLL
  for (int j = 0; j < AXES; ++j) {
    const int i = divide(index, c->a->below[j]);
    at[j] = i - divide(i, c->a->size[j]) * (int)c->a->size[j].divisor;
  }
  at[0] *= c->f->chunk;
  const int end = MIN(at[0] + c->f->chunk, c->a->extent[0]);
  Offsets o;
  o.x = offset[0];
#if BACKWARD
  o.dy = offset[1];
  o.y = offset[2];
#endif
  i64 result = offset[INPUTS];
#if RING
  // Positions from the first of the first window to the last of the last one.
  const int more = BACKWARD ? (RING - 1) / 2 : RING / 2;
  num ring[RING][VECTOR];
  UNROLL
  for (int r = 0; r < RING; ++r) clear(unit, ring[r]);
  int next[AXES];  // the position that enters the ring
  UNROLL
  for (int j = 0; j < AXES; ++j) next[j] = at[j];
  next[0] += more - (RING - 1);
  Offsets of_next = moved(c, o, 0, more - (RING - 1));
  for (; at[0] < end; ++next[0], of_next = moved(c, of_next, 0, 1)) {
    UNROLL
    for (int r = 0; r < RING - 1; ++r) {
      UNROLL
      for (int i = 0; i < unit; ++i) ring[r][i] = ring[r + 1][i];
    }
    clear(unit, ring[RING - 1]);
    if (next[0] >= 0 && next[0] < c->a->extent[0]) add_slice(c, next, of_next, unit, ring[RING - 1]);
    if (next[0] - more < at[0]) continue;
    num sum[VECTOR];
    clear(unit, sum);
    UNROLL
    for (int r = 0; r < RING; ++r) {
      UNROLL
      for (int i = 0; i < unit; ++i) sum[i] += ring[r][i];
    }
    finish(c, at, o, result, unit, sum);
    ++at[0];
    o = moved(c, o, 0, 1);
    result += c->s->result;
  }
#else
  for (; at[0] < end; ++at[0], o = moved(c, o, 0, 1), result += c->s->result) {
    num sum[VECTOR];
    clear(unit, sum);
    const Range r = range_of(c, 0, at[0], BACKWARD);
    for (int i = r.first; i <= r.last; ++i) {
      int to[AXES];
      UNROLL
      for (int j = 0; j < AXES; ++j) to[j] = at[j];
      to[0] += i;
      add_slice(c, to, moved(c, o, 0, i), unit, sum);
    }
    finish(c, at, o, result, unit, sum);
  }
#endif
}

KERNEL THREADS_PER_BLOCK(THREADS)
    lrn_elements(FIXED Walk w, OPERAND_PARAMETERS, const Formula f, const Axes a, const Steps s) {
  const Operands p = OPERAND_VALUES;
  const Call c = {&p, &f, &a, &s};
  normalise(&c, &w, 1);
}

KERNEL THREADS_PER_BLOCK(THREADS)
    lrn_vectors(FIXED Walk w, OPERAND_PARAMETERS, const Formula f, const Axes a, const Steps s) {
  const Operands p = OPERAND_VALUES;
  const Call c = {&p, &f, &a, &s};
  normalise(&c, &w, VECTOR);
}
