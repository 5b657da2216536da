// Reductions by rows, or with -DCOLUMNS by columns in two stages.
// Options: IN, OUT (types of a and c), NUM (arithmetic), OPERATION (number of Op in reduce.h; kAdd for kAvg), NAN_RULE
// (number of Nan in reduce.h), POSITIONS (1: the positions of extremes are written).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/walk.h"

#define OP_add 0
#define OP_mul 1
#define OP_min 2
#define OP_max 3
#define OP_amax 4
#define OP_norm1 6
#define OP_norm2 7
#define IS_EXTREME (OPERATION >= OP_min && OPERATION <= OP_amax)
#define PROPAGATES (NAN_RULE == 1)
#define FIRST_COUNTS (NAN_RULE == 2)
#define NAN_IS_ZERO (NAN_RULE == 3)
#define COMPENSATED (NUMBERS == NUMBERS_float && !IS_EXTREME && OPERATION != OP_mul)
#if defined(__HIP__) || defined(__HIPCC_RTC__)
#define ROOT(v) __builtin_sqrt(v)
#else
#define ROOT(v) sqrt(v)
#endif

#define INPUTS 1
#if POSITIONS
#define OUTPUTS 2
#else
#define OUTPUTS 1
#endif
#define OUTPUT_TYPE(o) ((o) == OUTPUTS - 1 ? OUT_TYPE : TYPE_int32)
#define MAPPED 0
#include "kernels/gpu/portable/operands.h"

typedef struct {
  num value;
#if POSITIONS
  int position;
#elif COMPENSATED
  num rest;  // what rounding has removed from the sum
#endif
} Accumulator;

/// c = alpha * result / count + beta * c. values: whether c is written.
typedef struct {
  real alpha, beta, count;
  int values;
} Formula;

INLINE Accumulator start(void) {
  Accumulator a;
#if OPERATION == OP_min || OPERATION == OP_max
  a.value = (num)FLOAT_OF_BITS(0xff800000u);  // -infinity
#else
  a.value = OPERATION == OP_mul ? (num)1 : (num)0;
#endif
#if POSITIONS
  a.position = 0;
#elif COMPENSATED
  a.rest = 0;
#endif
  return a;
}

#if IS_EXTREME
/// The first of equal elements wins; of NaNs, where they count, the last.
INLINE Accumulator combine(Accumulator a, Accumulator b) {
  const int b_is_nan = b.value != b.value;
  int wins = b.value > a.value;
#if POSITIONS
  if (b.value == a.value) wins = b.position < a.position;
  if (PROPAGATES && b_is_nan) wins = a.value == a.value || b.position > a.position;
  if (FIRST_COUNTS && b_is_nan) wins = 1;
#else
  if (PROPAGATES && b_is_nan) wins = 1;
#endif
  return wins ? b : a;
}

INLINE Accumulator accumulate(Accumulator a, const num* in, int index) {
  const num x = OPERATION == OP_min || (OPERATION == OP_amax && in[0] < 0) ? -in[0] : in[0];
  const int counts = x != x && (PROPAGATES || (FIRST_COUNTS && index == 0));
  if (x > a.value || counts) {
    a.value = x;
#if POSITIONS
    a.position = index;
#endif
  }
  return a;
}
#else
INLINE Accumulator combine(Accumulator a, Accumulator b) {
#if OPERATION == OP_mul
  a.value *= b.value;
#elif COMPENSATED
  // Adds the exact error of the rounded sum to the rest; a NaN where the sum is not finite.
  const num sum = a.value + b.value, of_b = sum - a.value;
  a.rest += b.rest + ((a.value - (sum - of_b)) + (b.value - of_b));
  a.value = sum;
#else
  a.value += b.value;
#endif
  return a;
}

INLINE num term(num x) {
  return NAN_IS_ZERO && x != x ? (num)0 : OPERATION == OP_norm1 && x < 0 ? -x : OPERATION == OP_norm2 ? x * x : x;
}
INLINE Accumulator accumulate(Accumulator a, const num* in, int index) {
  Accumulator b = start();
  b.value = term(in[0]);
  return combine(a, b);
}
#if COMPENSATED
/// The few elements of a vector are added without the correction, which takes six times as long.
#define ADD_UNIT(a, v, unit, n, index) add_elements(a, (v)[0], unit, n)
INLINE Accumulator add_elements(Accumulator a, const num* v, const int unit, int n) {
  Accumulator own = start();
  UNROLL
  for (int j = 0; j < unit; ++j)
    if (j < n) own.value += term(v[j]);
  return combine(a, own);
}
#endif
#endif

INLINE void finish(const Formula* f, GLOBAL u8* const* out, const i64* at, Accumulator a) {
  const int c = OUTPUTS - 1;
#if POSITIONS
  store_bits(out[0], 4, at[0], (u32)a.position);
#endif
  if (!f->values) return;
  real v = (real)a.value;
#if COMPENSATED
  if (a.rest == a.rest) v += (real)a.rest;
#endif
  if (OPERATION == OP_min) v = -v;
  if (OPERATION == OP_norm2) v = ROOT(v);
  if (f->count != 1) v /= f->count;
  v *= f->alpha;
  if (f->beta != 0) v += f->beta * REAL_OF(OUT_TYPE, load_bits(out[c], SIZE_OF(OUT_TYPE), at[c]));
  store_bits(out[c], SIZE_OF(OUT_TYPE), at[c], BITS_OF_REAL(OUT_TYPE, v));
}

#ifdef COLUMNS
#define ACCUMULATE(sum, in, index) accumulate(sum, in, index)
#include "kernels/gpu/portable/column_partials.h"
#else
#include "kernels/gpu/portable/row.h"
#endif
