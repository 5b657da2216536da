// A chain of pointwise nodes as a map. The library writes INPUTS, OUTPUTS, INPUT_TYPE, OUTPUT_TYPE and STATEMENTS, the
// instructions of the chain, before this text; without them it is a program of every function, for checks of compilers.
// Options: IN and OUT (types of the first input and the last output), NUM (arithmetic).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/walk.h"
#include "kernels/gpu/portable/functions.h"
#include "kernels/gpu/portable/elementary.h"

#ifndef STATEMENTS
#define INPUTS 2
#define OUTPUTS 1
#define STATEMENTS                                                                                             \
  const num a = in[0], b = in[1];                                                                              \
  out[0] = log_of(a) + tanh_of(a) + erf_of(a) + floor_of(a) + ceil_of(a) + sin_of(a) + cos_of(a) + tan_of(a) + \
           mod_of(a, b) + pow_of(a, b) + sqrt_of(a) + exp_of(a) + expm1_nonpositive(a) + log1p_unit(a) + abs_of(b)
#endif

typedef struct {
  int unused;
} Formula;

INLINE void compute(const Formula* f, const num* in, num* out) { STATEMENTS; }

#include "kernels/gpu/portable/map.h"
