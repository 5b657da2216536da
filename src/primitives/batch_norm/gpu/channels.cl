// Batch norm of training (BACKWARD 0) or its gradient (1) in one launch: a block reads a channel into registers, finds
// its moments or sums, and writes the result. Variances are sums of squared distances from the mean.
// Options: IN (x), OUT (y or dx), GRAD (dy), NUM (arithmetic), SCALES, BIASES, MOMENTS (parameters), BACKWARD, GATED
// (1: the activation has no gradient below a bound, 2: nor above another one), WIDE (1: a unit is a vector), THREADS,
// UNITS of a thread.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/functions.h"
#include "kernels/gpu/portable/bnorm_channel_shape.h"

#if WIDE
#define UNIT VECTOR
#else
#define UNIT 1
#endif
#define PACKED MAX(UNIT * 2, 1)  // most 32-bit units of a unit

typedef struct {
  num sum, squares;
} Accumulator;

/// `given`: backward, mean and inverse deviation are. Bounds are those of the activation.
typedef struct {
  scalar epsilon, factor, length, low, high, range, blend, keep, parameter_blend, parameter_keep;
  int given, running, saved, has_bias, has_dscale, has_dbias;
} Formula;

INLINE Accumulator combine(Accumulator a, Accumulator b) {
  const Accumulator all = {a.sum + b.sum, a.squares + b.squares};
  return all;
}

#include "kernels/gpu/portable/row_combine.h"

#define ELEMENT(TYPE_, p, i) decode(TYPE_, load_bits(p, SIZE_OF(TYPE_), i))
#define SET_ELEMENT(TYPE_, p, i, v) store_bits(p, SIZE_OF(TYPE_), i, encode(TYPE_, v))
#define EACH_UNIT(u) for (int u = 0; u < UNITS; ++u)
#define HAS_UNIT(s, u) ((u)*THREADS + THREAD(0) < (s)->units)

/// The offset of a thread's unit number u.
INLINE i64 offset_of(const ChannelShape* s, const ChannelAt* at, int u) {
  const int index = u * THREADS + THREAD(0), image = divide(index, s->per_channel);
  return at->first + BLOCK(0) * at->channel + image * at->image +
         (i64)(index - image * (int)s->per_channel.divisor) * UNIT;
}

/// A thread's units, zeros where it has none.
INLINE void read_units(const ChannelShape* s, GLOBAL const u8* p, const int type, const ChannelAt* at, num (*v)[UNIT]) {
  u32 packed[UNITS][PACKED];
  UNROLL
  EACH_UNIT(u)
  if (HAS_UNIT(s, u)) read_packed(p, type, offset_of(s, at, u), 1, UNIT, s->aligned ? UNIT : UNIT + 1, packed[u]);
  UNROLL
  EACH_UNIT(u) {
    UNROLL
    for (int j = 0; j < UNIT; ++j)
      v[u][j] = HAS_UNIT(s, u) ? decode(type, unpack_bits(packed[u], SIZE_OF(type), j)) : 0;
  }
}

INLINE void write_units(const ChannelShape* s, const Formula* f, GLOBAL u8* out, num (*v)[UNIT]) {
  UNROLL
  EACH_UNIT(u) {
    num old[UNIT];
    const int n = s->aligned ? UNIT : UNIT + 1;
    if (!HAS_UNIT(s, u)) break;
    const i64 at = offset_of(s, &s->at[2], u);
    if (f->keep != 0) read_unit(out, OUT_TYPE, at, 1, UNIT, n, old);
    UNROLL
    for (int j = 0; j < UNIT; ++j) v[u][j] = blend(f->blend, v[u][j], f->keep, f->keep != 0 ? old[j] : 0);
    write_unit(out, OUT_TYPE, at, 1, UNIT, n, v[u]);
  }
}

#if BACKWARD
INLINE void store_gradient(const Formula* f, GLOBAL u8* to, i64 at, num value) {
  const num old = f->parameter_keep != 0 ? ELEMENT(TYPE(BIASES), to, at) : 0;
  SET_ELEMENT(TYPE(BIASES), to, at, blend(f->parameter_blend, value, f->parameter_keep, old));
}
#else
INLINE num updated(const Formula* f, GLOBAL const u8* before, i64 at, num value) {
  const num kept = f->factor == 1 ? 0 : (1 - f->factor) * ELEMENT(TYPE(MOMENTS), before, at);
  return kept + f->factor * value;
}
#endif

/// The mean, and the sum of squared distances from it.
INLINE void find_moments(const ChannelShape* s, const Formula* f, num (*x)[UNIT], LOCAL Accumulator* sums,
                         LOCAL Accumulator* more_sums, num* mean, num* squares) {
  Accumulator a = {0, 0};
  UNROLL
  EACH_UNIT(u) {
    UNROLL
    for (int j = 0; j < UNIT; ++j) a.sum += x[u][j];
  }
  const num pivot = combine_lanes(a, sums, THREAD(0), THREADS, 1).sum / f->length;
  a.sum = 0;
  UNROLL
  EACH_UNIT(u) {
    UNROLL
    for (int j = 0; j < UNIT; ++j) {
      const num distance = HAS_UNIT(s, u) ? x[u][j] - pivot : 0;
      a.sum += distance;
      a.squares += distance * distance;
    }
  }
  a = combine_lanes(a, more_sums, THREAD(0), THREADS, 1);
  const num rest = a.sum / f->length, all = a.squares - a.sum * rest;  // what the rounding of the pivot dropped
  *mean = pivot + rest;
  *squares = all < 0 ? 0 : all;
}

KERNEL THREADS_PER_BLOCK(THREADS)
    channels(const ChannelShape s, GLOBAL const u8* in, GLOBAL const u8* gradient, GLOBAL u8* out,
             GLOBAL const u8* scale, GLOBAL const u8* bias, GLOBAL const u8* mean, GLOBAL const u8* variance,
             GLOBAL u8* next_mean, GLOBAL u8* next_variance, GLOBAL u8* first, GLOBAL u8* second, const Formula f) {
  SHARED Accumulator sums[THREADS];
  SHARED Accumulator more_sums[THREADS];
  num x[UNITS][UNIT];
  const i64 at = s.at[3].first + BLOCK(0) * s.at[3].channel;
  const num factor = ELEMENT(TYPE(SCALES), scale, at);
#if !BACKWARD || GATED
  const num shift = f.has_bias ? ELEMENT(TYPE(BIASES), bias, at) : 0;
#endif
  num center, squares, inverse;
  read_units(&s, in, IN_TYPE, &s.at[0], x);
#if !BACKWARD
  find_moments(&s, &f, x, sums, more_sums, &center, &squares);
  inverse = 1 / sqrt_of(squares / f.length + f.epsilon);
  if (THREAD(0) == 0 && f.running) {
    const num unbiased = f.length > 1 ? squares / (f.length - 1) : squares;
    const num new_mean = updated(&f, mean, at, center), new_variance = updated(&f, variance, at, unbiased);
    SET_ELEMENT(TYPE(MOMENTS), next_mean, at, new_mean);
    SET_ELEMENT(TYPE(MOMENTS), next_variance, at, new_variance);
  }
  if (THREAD(0) == 0 && f.saved) {
    SET_ELEMENT(TYPE(MOMENTS), first, at, center);
    SET_ELEMENT(TYPE(MOMENTS), second, at, inverse);
  }
  UNROLL
  EACH_UNIT(u) {
    UNROLL
    for (int j = 0; j < UNIT; ++j) {
      num v = (x[u][j] - center) * (factor * inverse) + shift;
      v = v > f.high ? f.high : v;
      x[u][j] = v < f.low ? f.low : v;
    }
  }
#else
  SHARED Accumulator sums_of_dy[THREADS];
  num dy[UNITS][UNIT];
  read_units(&s, gradient, TYPE(GRAD), &s.at[1], dy);
  if (f.given) {
    center = ELEMENT(TYPE(MOMENTS), mean, at);
    inverse = ELEMENT(TYPE(MOMENTS), variance, at);
  } else {
    find_moments(&s, &f, x, sums, more_sums, &center, &squares);
    inverse = 1 / sqrt_of(squares / f.length + f.epsilon);
  }
  const num a = factor * inverse;
#if GATED
  const num slope = a / f.range, relative = (shift - f.low) / f.range - slope * center;
#endif
  Accumulator sum = {0, 0};
  UNROLL
  EACH_UNIT(u) {
    UNROLL
    for (int j = 0; j < UNIT; ++j) {
#if GATED
      const num argument = slope * x[u][j] + relative;
      dy[u][j] = argument > 0 && (GATED < 2 || argument <= 1) ? dy[u][j] : 0;
#endif
      sum.sum += dy[u][j];
      sum.squares += dy[u][j] * (x[u][j] - center);
    }
  }
  sum = combine_lanes(sum, sums_of_dy, THREAD(0), THREADS, 1);
  const num dscale = sum.squares * inverse;
  if (THREAD(0) == 0 && f.has_dscale) store_gradient(&f, first, at, dscale);
  if (THREAD(0) == 0 && f.has_dbias) store_gradient(&f, second, at, sum.sum);
  const num mean_dy = sum.sum / f.length, of_x = inverse * (dscale / f.length);
  UNROLL
  EACH_UNIT(u) {
    UNROLL
    for (int j = 0; j < UNIT; ++j) x[u][j] = a * (dy[u][j] - mean_dy - of_x * (x[u][j] - center));
  }
#endif
  write_units(&s, &f, out, x);
}
