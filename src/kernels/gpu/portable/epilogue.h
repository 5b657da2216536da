// Scalars, bias and activation where a kernel stores its results.
// Options: HAS_BIAS (one per channel), MODE (activation::Mode, 0 for none; not POWER).
// SPDX-License-Identifier: MIT
#pragma once

typedef float num;
#define NUMBERS_double 2
#define NUMBERS 1
#include "kernels/gpu/portable/conv_shapes.h"
#include "kernels/gpu/portable/functions.h"
#include "kernels/gpu/portable/modes.h"

typedef EpilogueScalars Scalars;

INLINE sum_t activated(sum_t v, sum_t bias, Scalars s) {
#if HAS_BIAS
  v += bias;
#endif
  return MODE == 0 ? v : activate(MODE, v, s.act_alpha, s.act_beta, s.act_gamma);
}

/// activation(alpha * v + beta * dst + bias); beta 0 does not read dst.
INLINE sum_t finished(sum_t v, GLOBAL const out_t* dst, sum_t bias, Scalars s) {
  v *= s.alpha;
  if (s.beta != 0) v = FMA(s.beta, LOAD(OUT, dst, 0), v);
  return activated(v, bias, s);
}

/// The same of `count` neighbouring elements with one bias. All of dst is loaded before any is used.
INLINE void finish(sum_t* v, int count, GLOBAL const out_t* dst, sum_t bias, Scalars s) {
  UNROLL
  for (int i = 0; i < count; ++i) v[i] *= s.alpha;
  if (s.beta != 0) {
    UNROLL
    for (int i = 0; i < count; ++i) v[i] = FMA(s.beta, LOAD(OUT, dst, i), v[i]);
  }
  UNROLL
  for (int i = 0; i < count; ++i) v[i] = activated(v[i], bias, s);
}

#if HAS_BIAS
#define BIAS_OF(bias, c) LOAD(OUT, bias, c)
#else
#define BIAS_OF(bias, c) 0
#endif
