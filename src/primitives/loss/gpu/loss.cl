// The soft margin loss log(1 + e^-z), z = x * target, by PASS: 0 of each element; 1 its derivative times dy; 2 its sum
// over everything. PASS 3 is the sum of x. The result is scaled, but for PASS 0.
// Options: IN (type of inputs), OUT (type of the output), NUM (arithmetic), PASS.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/walk.h"
#include "kernels/gpu/portable/functions.h"

#if PASS == 1
#define INPUTS 3
#elif PASS == 3
#define INPUTS 1
#else
#define INPUTS 2
#endif
#define OUTPUTS 1
#include "kernels/gpu/portable/operands.h"  // in both branches below

typedef struct {
  scalar scale;
} Formula;

#if PASS == 0 || PASS == 2
INLINE num soft_loss(num z) { return (z < 0 ? -z : 0) + log1p_unit(exp_of(-abs_of(z))); }
#endif

#if PASS < 2

INLINE void compute(const Formula* f, const num* in, num* out) {
  const num z = in[0] * in[1];
#if PASS == 0
  out[0] = soft_loss(z);
#else
  const num u = exp_of(-abs_of(z));
  out[0] = -in[1] * ((z < 0 ? 1 : u) / (1 + u)) * (in[2] * f->scale);
#endif
}

#include "kernels/gpu/portable/map.h"

#else

typedef num Accumulator;
#if PASS == 2
#define UNROLL_UNITS NO_UNROLL
#endif

INLINE Accumulator start(void) { return 0; }
INLINE Accumulator accumulate(Accumulator sum, const num* in) {
#if PASS == 2
  return sum + soft_loss(in[0] * in[1]);
#else
  return sum + in[0];
#endif
}
INLINE Accumulator combine(Accumulator a, Accumulator b) { return a + b; }
INLINE void finish(const Formula* f, GLOBAL u8* const* out, const i64* at, Accumulator sum) {
  store_bits(out[0], SIZE_OF(OUT_TYPE), at[0], encode(OUT_TYPE, sum * f->scale));
}

#include "kernels/gpu/portable/column_partials.h"

#endif
