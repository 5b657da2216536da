// Softmax (INPUTS 1: x) or its gradient (INPUTS 2: y and dy) of rows: out = scale * result + keep * out.
// Options: IN = OUT (type), NUM (arithmetic), INPUTS, LOG (0 or 1).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/walk.h"
#include "kernels/gpu/portable/functions.h"

#define OUTPUTS 1
#define MAPPED 1
#define READS_OUTPUT(f, o) ((f)->keep != 0)

typedef struct {
  scalar scale, keep;
} Formula;

// NVIDIA's instruction: as accurate as the product that its argument is (2^-22 and the rounding of x), and a tenth of
// the instructions, which would take longer than the memory traffic of 16-bit elements.
#if defined(__CUDA_ARCH__) && NUMBERS == NUMBERS_float
#define HAS_EXP2
#define LOG2_E 1.4426950408889634f
INLINE num exp_of_difference(num x) {
  num y;
  asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x * LOG2_E));
  return y;
}
#else
INLINE num exp_of_difference(num x) { return exp_of(x); }
#endif

#if INPUTS == 1
#if NUMBERS == NUMBERS_double
#define LOWEST -0x1.fffffffffffffp1023
#define LEAST_TERM -708
#else
#define LOWEST -0x1.fffffep127f
#define LEAST_TERM -87
#endif

typedef struct {
  num largest, sum;  // the sum of exp(x - largest)
} Accumulator;

/// e^x for x <= 0, where results below the least normal number may be that number or 0: terms of a sum that is 1 or
/// more.
INLINE num exp_of_term(num x) {
#ifdef HAS_EXP2
  num y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * LOG2_E));
  return y;
#else
  num_int n;
  const num p = reduce_exp(x < LEAST_TERM ? LEAST_TERM : x, &n), scale = power_of_two(n);
  return p * scale + scale;
#endif
}

/// The logarithm of 1 or more; that of NaN is NaN.
INLINE num log_of_sum(num v) {
  const num_int n = (BITS_OF_NUM(v) - BITS_OF_NUM((num)0.70710678118654752440)) >> FRACTION;
  const num m = NUM_OF_BITS(BITS_OF_NUM(v) - (n << FRACTION));  // in [sqrt(1/2), sqrt(2))
  const num s = (m - 1) / (m + 1), q = s * s, twice = s + s, e = (num)n;
  return v == v ? e * LN2_HIGH + (twice + (e * LN2_LOW + twice * (q * log_series(q)))) : v;
}

INLINE Accumulator start(void) {
  const Accumulator none = {LOWEST, 0};
  return none;
}

/// One exponential: where the maximum grows, the older sum is scaled. An infinite maximum or a NaN makes the sum NaN,
/// or leaves it to apply().
INLINE Accumulator combine(Accumulator a, Accumulator b) {
  const num factor = exp_of_term(-abs_of(b.largest - a.largest));
  const int grows = b.largest > a.largest;
  const Accumulator both = {grows ? b.largest : a.largest, grows ? a.sum * factor + b.sum : b.sum * factor + a.sum};
  return both;
}

/// The exponentials of a unit do not wait for each other: its maximum comes first.
#define ADD_UNIT(a, v, unit, n, column) add_elements(a, (v)[0], unit, n)
INLINE Accumulator add_elements(Accumulator a, const num* v, const int unit, int n) {
  Accumulator own = start();
  UNROLL
  for (int j = 0; j < unit; ++j)
    if (j < n && v[j] > own.largest) own.largest = v[j];
  UNROLL
  for (int j = 0; j < unit; ++j)
    if (j < n) own.sum += exp_of_term(v[j] - own.largest);
  return combine(a, own);
}

/// What apply() needs of the sum, in its place: 1 / sum or its logarithm.
#define PREPARED(f, a) prepared(a)
INLINE Accumulator prepared(Accumulator a) {
  // Without a finite maximum the sum becomes NaN, and so does every result: 0 times infinity, or less than 1.
  const num sum = a.sum >= 1 ? a.sum + 0 * a.largest : FLOAT_OF_BITS(0x7fc00000u);
#if LOG
  a.sum = log_of_sum(sum);
#else
  a.sum = 1 / sum;
#endif
  return a;
}

INLINE void apply(const Formula* f, Accumulator a, const num* in, num* out) {
  const num down = in[0] - a.largest;
#if LOG
  const num v = down - a.sum;
#else
  const num v = exp_of_difference(down) * a.sum;
#endif
  out[0] = blend(f->scale, v, f->keep, out[0]);
}

#else
typedef struct {
  num sum;
} Accumulator;

INLINE Accumulator start(void) {
  const Accumulator none = {0};
  return none;
}

INLINE Accumulator combine(Accumulator a, Accumulator b) {
  const Accumulator both = {a.sum + b.sum};
  return both;
}

INLINE Accumulator accumulate(Accumulator a, const num* in, int column) {
#if LOG
  const Accumulator sum = {a.sum + in[1]};
#else
  const Accumulator sum = {a.sum + in[0] * in[1]};
#endif
  return sum;
}

INLINE void apply(const Formula* f, Accumulator a, const num* in, num* out) {
#if LOG
  const num v = in[1] - a.sum * exp_of_difference(in[0]);
#else
  const num v = in[0] * (in[1] - a.sum);
#endif
  out[0] = blend(f->scale, v, f->keep, out[0]);
}
#endif

INLINE void finish(const Formula* f, GLOBAL u8* const* out, const i64* at, Accumulator a) {}

#include "kernels/gpu/portable/row.h"
