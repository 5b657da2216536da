// Scalars, scale, bias and activation where a kernel stores its results.
// Options: HAS_BIAS, HAS_SCALE (one per channel; none: no scale), HAS_NORM (with both: kernels with
// CHANNEL_PARAMETERS compute them from a batch norm's parameters), MODE (activation::Mode, 0 for none; not POWER).
// SPDX-License-Identifier: MIT
#pragma once

typedef float num;
#define NUMBERS_double 2
#define NUMBERS 1
#include "kernels/gpu/portable/conv_shapes.h"
#include "kernels/gpu/portable/functions.h"
#include "kernels/gpu/portable/modes.h"

typedef EpilogueScalars Scalars;
#if HAS_SCALE && !HAS_NORM
typedef float bias_t;
#else
typedef out_t bias_t;
#endif

#if HAS_NORM
#define CHANNEL_PARAMETERS                                                                                        \
  GLOBAL const bias_t *RESTRICT bias, GLOBAL const float *RESTRICT scale, GLOBAL const float *RESTRICT norm_bias, \
      GLOBAL const float *RESTRICT mean, GLOBAL const float *RESTRICT variance, const EpilogueNorm norm
#define CHANNEL_ARGUMENTS bias, scale, norm_bias, mean, variance, norm
#else
#define CHANNEL_PARAMETERS GLOBAL const bias_t *RESTRICT bias, GLOBAL const float *RESTRICT scale
#define CHANNEL_ARGUMENTS bias, scale
#endif
#define CHANNEL_TERMS(channel) channel_terms(CHANNEL_ARGUMENTS, channel)

typedef struct {
  sum_t scale, bias;
} ChannelTerms;

INLINE ChannelTerms channel_terms(CHANNEL_PARAMETERS, i64 channel) {
  ChannelTerms c = {1, 0};
#if HAS_NORM
  const float before = norm.has_bias ? LOAD(OUT, bias, channel) : 0;
  c.scale = scale[channel] / sqrt_of(variance[channel] + norm.epsilon);
  c.bias = (before - mean[channel]) * c.scale + norm_bias[channel];
#elif HAS_SCALE
  c.scale = scale[channel];
  if (HAS_BIAS) c.bias = bias[channel];
#elif HAS_BIAS
  c.bias = LOAD(OUT, bias, channel);
#endif
  return c;
}

INLINE sum_t activated(sum_t v, ChannelTerms c, Scalars s) {
#if HAS_SCALE
  v *= c.scale;
#endif
#if HAS_BIAS
  v += c.bias;
#endif
  return MODE == 0 ? v : activate(MODE, v, s.act_alpha, s.act_beta, s.act_gamma);
}

/// activation((alpha * v + beta * dst) * scale + bias); beta 0 does not read dst.
INLINE sum_t finished(sum_t v, GLOBAL const out_t* dst, ChannelTerms c, Scalars s) {
  v *= s.alpha;
  if (s.beta != 0) v = FMA(s.beta, LOAD(OUT, dst, 0), v);
  return activated(v, c, s);
}

/// The same of `count` neighbouring elements of a channel. All of dst is loaded before any is used.
INLINE void finish(sum_t* v, int count, GLOBAL const out_t* dst, ChannelTerms c, Scalars s) {
  UNROLL
  for (int i = 0; i < count; ++i) v[i] *= s.alpha;
  if (s.beta != 0) {
    UNROLL
    for (int i = 0; i < count; ++i) v[i] = FMA(s.beta, LOAD(OUT, dst, i), v[i]);
  }
  UNROLL
  for (int i = 0; i < count; ++i) v[i] = activated(v[i], c, s);
}
