// The gradient of the weights of a parametric ReLU: the sum of x > 0 ? 0 : x * dy for each of them.
// Options: IN = OUT (type), NUM (arithmetic).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/walk.h"

#define INPUTS 2
#define OUTPUTS 1

typedef num Accumulator;
typedef struct {
  int unused;
} Formula;

INLINE Accumulator start(void) { return 0; }
INLINE Accumulator accumulate(Accumulator sum, const num* in) { return in[0] > 0 ? sum : sum + in[0] * in[1]; }
INLINE Accumulator combine(Accumulator a, Accumulator b) { return a + b; }
INLINE void finish(const Formula* f, GLOBAL u8* const* out, const i64* at, Accumulator sum) {
  store_bits(out[0], SIZE_OF(OUT_TYPE), at[0], encode(OUT_TYPE, sum));
}

#include "kernels/gpu/portable/column_partials.h"
