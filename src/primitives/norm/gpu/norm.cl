// Normalizations of rows of tensors with any strides, by PASS: 0 y, mean and rstd from x, x2, weight and bias (those
// that there are); 1 dx from dy, x, weight, mean and rstd; 2 dw and db from dy, x, rstd and mean, one row for each
// element of a row of x; 3 the same by columns.
// Options: IN (type of x), PARAM (of weight, bias, dw, db), STAT (of mean and rstd), OUT (of the last output), NUM
// (arithmetic), ADDS (1: of x + x2), AFFINE (number of parameters: 0, 1 or 2), RMS (1: without mean), WHOLE_ROWS (see
// row.h).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/walk.h"

#if defined(__HIP__) || defined(__HIPCC_RTC__)
#define SQRT(v) (NUMBERS == NUMBERS_double ? (num)__builtin_sqrt(v) : (num)__builtin_sqrtf((float)(v)))
#else
#define SQRT(v) sqrt(v)
#endif

#define PARAM_TYPE TYPE(PARAM)
#define STAT_TYPE TYPE(STAT)
#define ANY_ALIGNMENT

#if PASS == 0

#if ADDS + AFFINE == 0
#define INPUTS 1
#elif ADDS + AFFINE == 1
#define INPUTS 2
#elif ADDS + AFFINE == 2
#define INPUTS 3
#else
#define INPUTS 4
#endif
#define OUTPUTS 3
#define MAPPED 1
#define REDUCES(i) ((i) <= ADDS)
#define INPUT_TYPE(i) ((i) <= ADDS ? IN_TYPE : PARAM_TYPE)
#define OUTPUT_TYPE(o) ((o) == 0 ? IN_TYPE : STAT_TYPE)

typedef struct {
  scalar length, epsilon;
  int writes_mean, writes_rstd;
} Formula;

INLINE num element(const num* in) {
#if ADDS
  return in[0] + in[1];
#else
  return in[0];
#endif
}

#if RMS
typedef struct {
  num squares;
} Accumulator;
INLINE Accumulator start(void) {
  const Accumulator none = {0};
  return none;
}
INLINE Accumulator combine(Accumulator a, Accumulator b) {
  const Accumulator all = {a.squares + b.squares};
  return all;
}
INLINE Accumulator accumulate(Accumulator a, const num* in, int column) {
  const Accumulator all = {a.squares + element(in) * element(in)};
  return all;
}
#else
/// The sums of d and d^2, where d is the distance from the shift: a thread's first element, then the mean of what was
/// combined, and `sum` is not used any more.
typedef struct {
  num count, shift, squares, sum;
} Accumulator;
INLINE Accumulator start(void) {
  const Accumulator none = {0, 0, 0, 0};
  return none;
}
#define ADD_UNIT(a, v, unit, n, column) add_elements(a, v, unit, n)
INLINE Accumulator add_elements(Accumulator a, num (*v)[VECTOR], const int unit, int n) {
  UNROLL
  for (int j = 0; j < unit; ++j) {
#if ADDS
    const num in[2] = {v[0][j], v[1][j]};
#else
    const num in[1] = {v[0][j]};
#endif
    if (j == 0 && a.count == 0) a.shift = element(in);
    const num d = j < n ? element(in) - a.shift : 0;
    a.sum += d;
    a.squares += d * d;
  }
  a.count += (num)n;
  return a;
}
/// The same elements with their mean as the shift.
#define REDUCED(a) centred(a)
INLINE Accumulator centred(Accumulator a) {
  if (a.count == 0) return a;
  const num offset = a.sum / a.count, squares = a.squares - a.sum * offset;
  const Accumulator all = {a.count, a.shift + offset, squares < 0 ? 0 : squares, 0};
  return all;
}
INLINE Accumulator combine(Accumulator a, Accumulator b) {
  const num count = a.count + b.count, distance = b.shift - a.shift;
  num share = (num)0.5;
  if (a.count != b.count) share = b.count / count;  // a division takes longer than all the rest
  const num squares = a.squares + b.squares + distance * (a.count * share) * distance;
  const Accumulator all = {count, a.shift + distance * share, squares, 0};
  return all;
}
#endif

/// Then `shift` and `squares` are the mean and 1 / the standard deviation.
#define PREPARED(f, a) prepared(f, a)
INLINE Accumulator prepared(const Formula* f, Accumulator a) {
  a.squares = 1 / SQRT(a.squares / f->length + f->epsilon);
  return a;
}
#if RMS
#define MEAN(a) (num)0
#else
#define MEAN(a) (a).shift
#endif
#define RSTD(a) (a).squares

INLINE void apply(const Formula* f, Accumulator a, const num* in, num* out) {
  out[0] = (element(in) - MEAN(a)) * RSTD(a);
#if AFFINE > 0
  out[0] *= in[1 + ADDS];
#endif
#if AFFINE > 1
  out[0] += in[2 + ADDS];
#endif
}

INLINE void finish(const Formula* f, GLOBAL u8* const* out, const i64* at, Accumulator a) {
  const int size = SIZE_OF(STAT_TYPE);
  if (f->writes_mean) store_bits(out[1], size, at[1], encode(STAT_TYPE, MEAN(a)));
  if (f->writes_rstd) store_bits(out[2], size, at[2], encode(STAT_TYPE, RSTD(a)));
}

#elif PASS == 1

#if AFFINE
#define INPUTS 3
#else
#define INPUTS 2
#endif
#define OUTPUTS 3
#define MAPPED 1
#define INPUT_TYPE(i) ((i) < 2 ? IN_TYPE : PARAM_TYPE)
#define OUTPUT_TYPE(o) ((o) == 0 ? IN_TYPE : STAT_TYPE)
#define START_ROW(f, p, at) start_row((p)->out, (at) + INPUTS)

typedef struct {
  scalar share;
} Formula;

/// The sums of g = dy * weight and of g * xhat; the row's mean and rstd.
typedef struct {
  num sum, dot, mean, rstd;
} Accumulator;
INLINE Accumulator start(void) {
  const Accumulator none = {0, 0, 0, 0};
  return none;
}
INLINE num statistic(GLOBAL u8* const* out, const i64* at, const int o) {
  return decode(STAT_TYPE, load_bits(out[o], SIZE_OF(STAT_TYPE), at[o]));
}
INLINE Accumulator start_row(GLOBAL u8* const* out, const i64* at) {
  Accumulator none = start();
  none.rstd = statistic(out, at, 2);
#if !RMS
  none.mean = statistic(out, at, 1);
#endif
  return none;
}
INLINE num gradient(const num* in) {
#if AFFINE
  return in[0] * in[2];
#else
  return in[0];
#endif
}
INLINE Accumulator accumulate(Accumulator a, const num* in, int column) {
#if !RMS
  a.sum += gradient(in);
#endif
  a.dot += gradient(in) * ((in[1] - a.mean) * a.rstd);
  return a;
}
INLINE Accumulator combine(Accumulator a, Accumulator b) {
  a.sum += b.sum;
  a.dot += b.dot;
  return a;
}
INLINE void apply(const Formula* f, Accumulator a, const num* in, num* out) {
  const num normalized = (in[1] - a.mean) * a.rstd;
  out[0] = (gradient(in) - a.sum * f->share - normalized * (a.dot * f->share)) * a.rstd;
}
INLINE void finish(const Formula* f, GLOBAL u8* const* out, const i64* at, Accumulator a) {}

#else

#if RMS
#define INPUTS 3
#define OUTPUTS 1
#else
#define INPUTS 4
#define OUTPUTS 2
#endif
#define MAPPED 0
#define INPUT_TYPE(i) ((i) < 2 ? IN_TYPE : STAT_TYPE)
#define EQUAL_ACROSS(i) ((i) >= 2)

typedef struct {
  int adds;  // to the old results
} Formula;

typedef struct {
  num dw, db;
} Accumulator;
INLINE Accumulator start(void) {
  const Accumulator none = {0, 0};
  return none;
}
INLINE Accumulator combine(Accumulator a, Accumulator b) {
  const Accumulator all = {a.dw + b.dw, a.db + b.db};
  return all;
}
INLINE Accumulator added(Accumulator a, const num* in) {
#if RMS
  a.dw += in[0] * (in[1] * in[2]);
#else
  a.dw += in[0] * ((in[1] - in[3]) * in[2]);
  a.db += in[0];
#endif
  return a;
}
INLINE void put(const Formula* f, GLOBAL u8* out, i64 at, num v) {
  const int size = SIZE_OF(OUT_TYPE);
  if (f->adds) v += decode(OUT_TYPE, load_bits(out, size, at));
  store_bits(out, size, at, encode(OUT_TYPE, v));
}
INLINE void finish(const Formula* f, GLOBAL u8* const* out, const i64* at, Accumulator a) {
  put(f, out[0], at[0], a.dw);
#if !RMS
  put(f, out[1], at[1], a.db);
#endif
}

#if PASS == 2
INLINE Accumulator accumulate(Accumulator a, const num* in, int column) { return added(a, in); }
#else
INLINE Accumulator accumulate(Accumulator a, const num* in) { return added(a, in); }
#endif

#endif

// The library includes a header once, wherever that is: what both skeletons include comes first.
#include "kernels/gpu/portable/operands.h"
#if PASS == 3
#include "kernels/gpu/portable/column.h"
#else
#include "kernels/gpu/portable/row.h"
#endif
