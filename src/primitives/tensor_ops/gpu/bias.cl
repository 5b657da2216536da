// The gradient of a bias: db = alpha * sum of dy + beta * db for each channel.
// Options: IN = OUT (type of dy and db), NUM (arithmetic of the sums).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/walk.h"

#define INPUTS 1
#define OUTPUTS 1

typedef num Accumulator;

/// In exact arithmetic if `exact` (alpha and beta are -1, 0 or 1).
typedef struct {
  real alpha, beta;
  int exact;
} Formula;

INLINE Accumulator start(void) { return num_of(0); }
INLINE Accumulator accumulate(Accumulator sum, const num* in) { return plus(sum, in[0]); }
INLINE Accumulator combine(Accumulator a, Accumulator b) { return plus(a, b); }

INLINE u64 scaled(num sum, num old, const Formula* f) {
#if NUMBERS == NUMBERS_exact
  if (f->exact) {
    const num v = times(num_of((i64)f->alpha), sum);
    return encode(OUT_TYPE, f->beta != 0 ? plus(v, times(num_of((i64)f->beta), old)) : v);
  }
#endif
  const real v = f->alpha * real_of(sum);
  return BITS_OF_REAL(OUT_TYPE, f->beta != 0 ? v + f->beta * real_of(old) : v);
}

INLINE void finish(const Formula* f, GLOBAL u8* const* out, const i64* at, Accumulator sum) {
  const num old = f->beta != 0 ? decode(OUT_TYPE, load_bits(out[0], SIZE_OF(OUT_TYPE), at[0])) : num_of(0);
  store_bits(out[0], SIZE_OF(OUT_TYPE), at[0], scaled(sum, old, f));
}

#include "kernels/gpu/portable/column.h"
