// Batch normalisation in passes: PASS 0 reduces the elements of each mean to moments, 1 those of dy to sums, 2 computes
// the coefficients of each mean from these, 3 the result from the coefficients.
// Options: PASS, IN (x), OUT (y or dx; in passes 0 to 2 REAL), NUM (arithmetic), REAL (its name as a type of elements),
// GRAD (dy), SCALES, BIASES, MOMENTS (parameters), BACKWARD, GATED (1: the activation has no gradient below a bound, 2:
// nor above another one).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/walk.h"
#include "kernels/gpu/portable/functions.h"

// Passes 0 and 1 read x; dy; with an activation the coefficients of its argument, relative to its bounds. Pass 3 reads
// x, dy backward, and coefficients.
#if PASS == 0 || PASS == 2
#define INPUTS 1
#elif PASS == 1
#if GATED
#define INPUTS 4
#else
#define INPUTS 2
#endif
#elif !BACKWARD
#define INPUTS 4
#elif GATED
#define INPUTS 6
#else
#define INPUTS 5
#endif
#define OUTPUTS 1
#define INPUT_TYPE(i) ((i) == 0 ? IN_TYPE : BACKWARD && (i) == 1 ? TYPE(GRAD) : TYPE(REAL))
#include "kernels/gpu/portable/operands.h"

/// Of x: sums of differences from the pivot, an element, so that they are as large as the deviation. Of dy: sum and
/// squares are the sums of dy and of its products with these differences.
typedef struct {
  num count, pivot, sum, squares;
} Sums;

/// Whether the activation has a gradient, from its argument relative to its bounds.
INLINE int is_open(num relative) { return relative > 0 && (GATED < 2 || relative <= 1); }

#if PASS <= 1
typedef Sums Accumulator;
typedef struct {
  int unused;
} Formula;

INLINE Accumulator start(void) {
  const Accumulator none = {0, 0, 0, 0};
  return none;
}
INLINE void finish(const Formula* f, GLOBAL u8* const* out, const i64* at, Accumulator sum) {
  ((GLOBAL Accumulator*)out[0])[at[0]] = sum;
}
#endif

#if PASS == 0
#define ADD_UNIT(a, v, unit, n, index) add_elements(a, (v)[0], unit, n)
INLINE Accumulator add_elements(Accumulator a, const num* x, const int unit, int n) {
  if (a.count == 0) a.pivot = x[0];
  UNROLL
  for (int j = 0; j < unit; ++j) {
    const num difference = j < n ? x[j] - a.pivot : 0;
    a.sum += difference;
    a.squares += difference * difference;
  }
  a.count += (num)n;
  return a;
}
/// About the mean becomes the pivot; what its rounding drops stays in the sum.
INLINE Accumulator combine(Accumulator a, Accumulator b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  // Divisions take longer than all the rest; most counts are equal.
  const num count = a.count + b.count, of_a = 1 / a.count;
  num of_b = of_a, share = (num)0.5;
  if (a.count != b.count) {
    of_b = 1 / b.count;
    share = b.count / count;
  }
  const num a_mean = a.sum * of_a, b_mean = b.sum * of_b;  // relative to the pivots
  const num distance = (b.pivot - a.pivot) + (b_mean - a_mean), shift = a_mean + distance * share;
  const num pivot = a.pivot + shift, rest = (a.pivot - pivot) + shift;
  const num squares = a.squares - a.sum * a_mean + (b.squares - b.sum * b_mean) + distance * distance * a.count * share;
  const Accumulator all = {count, pivot, rest * count, squares + rest * rest * count};
  return all;
}
#endif

#if PASS == 1
#define ADD_UNIT(a, v, unit, n, index) add_elements(a, v, unit, n)
INLINE Accumulator add_elements(Accumulator a, num (*v)[COLUMN_UNIT], const int unit, int n) {
  if (a.count == 0) a.pivot = v[0][0];
  a.count = 1;
  UNROLL
  for (int j = 0; j < unit; ++j) {
    if (j >= n) continue;
#if GATED
    const num dy = is_open(v[2][j] * v[0][j] + v[3][j]) ? v[1][j] : 0;
#else
    const num dy = v[1][j];
#endif
    a.sum += dy;
    a.squares += dy * (v[0][j] - a.pivot);
  }
  return a;
}
INLINE Accumulator combine(Accumulator a, Accumulator b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  const Accumulator all = {1, a.pivot, a.sum + b.sum, a.squares + b.squares + (b.pivot - a.pivot) * b.sum};
  return all;
}
#endif

#if PASS <= 1
#include "kernels/gpu/portable/column_partials.h"
#endif

#if PASS == 2
/// What is to be computed: coefficients of y, of the activation's argument, or of dx.
enum { kForward, kArgument, kGradient };

typedef struct {
  scalar epsilon, factor, length, low, range, blend, keep;
  int stage, given, inverse, running, saved, has_bias, has_dscale, has_dbias;
} Formula;

#define ELEMENT(TYPE_, p, i) decode(TYPE_, load_bits(p, SIZE_OF(TYPE_), i))
#define SET_ELEMENT(TYPE_, p, i, v) store_bits(p, SIZE_OF(TYPE_), i, encode(TYPE_, v))

INLINE num updated(const Formula* f, GLOBAL const u8* before, i64 at, num value) {
  const num kept = f->factor == 1 ? 0 : (1 - f->factor) * ELEMENT(TYPE(MOMENTS), before, at);
  return kept + f->factor * value;
}
INLINE void store_gradient(const Formula* f, GLOBAL u8* to, i64 at, num value) {
  const num old = f->keep != 0 ? ELEMENT(TYPE(BIASES), to, at) : 0;
  SET_ELEMENT(TYPE(BIASES), to, at, blend(f->blend, value, f->keep, old));
}

/// Coefficients, arrays of one per row: forward mean, factor, bias; backward mean, inverse deviation, then those of the
/// argument, relative to its bounds: factor, shift; then those of dx: of dy (if not GATED), of x, constant.
KERNEL THREADS_PER_BLOCK(256)
    rows(FIXED Walk w, FIXED Strides to_parameter, GLOBAL num* coefficients, GLOBAL const Sums* sums,
         GLOBAL const u8* scale, GLOBAL const u8* bias, GLOBAL const u8* mean, GLOBAL const u8* variance,
         GLOBAL u8* next_mean, GLOBAL u8* next_variance, GLOBAL u8* first, GLOBAL u8* second, const Formula f) {
  const int row = BLOCK(0) * 256 + THREAD(0);
  if (row >= w.count) return;
  const i64 count = w.count;
  const Strides* const strides[1] = {&to_parameter};
  i64 at;
  locate(&w, row, strides, 1, &at);
  GLOBAL num* const c = coefficients + row;
  const Sums s = sums[row];
  const num factor = ELEMENT(TYPE(SCALES), scale, at);
  num center, inverse;
  if (f.given) {
    center = ELEMENT(TYPE(MOMENTS), mean, at);
    inverse = ELEMENT(TYPE(MOMENTS), variance, at);
    if (!f.inverse) inverse = 1 / sqrt_of(inverse + f.epsilon);
  }
  if (f.stage == kGradient) {
    if (!f.given) {
      center = c[0];
      inverse = c[count];
    }
    const num a = factor * inverse;
    const num dbias = s.sum, dscale = (s.squares + (s.pivot - center) * s.sum) * inverse;
    if (f.has_dscale) store_gradient(&f, first, at, dscale);
    if (f.has_dbias) store_gradient(&f, second, at, dbias);
    const num of_x = -a * inverse * (dscale / f.length);
    if (!GATED) c[2 * count] = a;
    c[4 * count] = of_x;
    c[5 * count] = -a * (dbias / f.length) - of_x * center;
    return;
  }
  if (!f.given) {
    const num squares = s.squares - s.sum * (s.sum / s.count), positive = squares < 0 ? 0 : squares;
    const num biased = positive / f.length;
    center = s.pivot + s.sum / s.count;
    inverse = 1 / sqrt_of(biased + f.epsilon);
    if (f.running) {
      const num unbiased = f.length > 1 ? positive / (f.length - 1) : positive;
      const num new_mean = updated(&f, mean, at, center), new_variance = updated(&f, variance, at, unbiased);
      SET_ELEMENT(TYPE(MOMENTS), next_mean, at, new_mean);
      SET_ELEMENT(TYPE(MOMENTS), next_variance, at, new_variance);
    }
    if (f.saved) {
      SET_ELEMENT(TYPE(MOMENTS), first, at, center);
      SET_ELEMENT(TYPE(MOMENTS), second, at, inverse);
    }
  }
  const num shift = f.has_bias ? ELEMENT(TYPE(BIASES), bias, at) : 0;
  c[0] = center;
  if (f.stage == kForward) {
    c[count] = factor * inverse;
    c[2 * count] = shift;
    return;
  }
  const num slope = factor * inverse / f.range;
  c[count] = inverse;
  c[2 * count] = slope;
  c[3 * count] = (shift - f.low) / f.range - slope * center;
}
#endif

#if PASS == 3
#define READS_OUTPUT(f, o) ((f)->keep != 0)

typedef struct {
  scalar low, high, range, blend, keep;
} Formula;

INLINE void compute(const Formula* f, const num* in, num* out) {
#if !BACKWARD
  num v = (in[0] - in[1]) * in[2] + in[3];
  v = v > f->high ? f->high : v;
  v = v < f->low ? f->low : v;
#elif GATED
  const num v = (is_open(in[2] * in[0] + in[3]) ? in[2] * f->range * in[1] : 0) + in[4] * in[0] + in[5];
#else
  const num v = in[2] * in[1] + in[3] * in[0] + in[4];
#endif
  out[0] = blend(f->blend, v, f->keep, out[0]);
}

#include "kernels/gpu/portable/map.h"
#endif
