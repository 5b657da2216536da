// Batch norm of training (BACKWARD 0) or its gradient (1) in one launch: a block, or a thread, reads a channel into
// registers, finds its moments or sums, and writes the result. Variances are sums of squared distances from the mean.
// Options: IN (x), OUT (y or dx), GRAD (dy), NUM (arithmetic), SCALES, BIASES, MOMENTS (parameters), BACKWARD, GATED
// (1: the activation has no gradient below a bound, 2: nor above another one), WIDE (1: a unit is a vector), THREADS,
// UNITS of a thread, PER_THREAD (1: a thread has a channel, of one element in each image).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/functions.h"
#include "kernels/gpu/portable/bnorm_channel_shape.h"
#include "kernels/gpu/portable/walk.h"

#if WIDE
#define UNIT VECTOR
#else
#define UNIT 1
#endif
#define PACKED MAX(UNIT * 2, 1)  // most 32-bit units of a unit
#if PER_THREAD
#define LANES 1  // threads of a channel
#define LANE 0
#else
#define LANES THREADS
#define LANE THREAD(0)
#endif

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

#if PER_THREAD
#define ALL_LANES(own, sums) ((void)(sums), own)
#else
#include "kernels/gpu/portable/row_combine.h"
#define ALL_LANES(own, sums) combine_lanes(own, sums, LANE, LANES, 1)
#endif

#define ELEMENT(TYPE_, p, i) decode(TYPE_, load_bits(p, SIZE_OF(TYPE_), i))
#define SET_ELEMENT(TYPE_, p, i, v) store_bits(p, SIZE_OF(TYPE_), i, encode(TYPE_, v))
#define EACH_UNIT(u) for (int u = 0; u < UNITS; ++u)
#define HAS_UNIT(s, u) ((u)*LANES + LANE < (s)->units)

/// The offset of a thread's unit number u of the channel that begins at `first`.
INLINE i64 offset_of(const ChannelShape* s, i64 first, i64 image_stride, int u) {
  const int index = u * LANES + LANE, image = PER_THREAD ? index : divide(index, s->per_channel);
  const int place = PER_THREAD ? 0 : index - image * (int)s->per_channel.divisor;
  return first + image * image_stride + (i64)place * UNIT;
}

/// A thread's units, zeros where it has none.
INLINE void read_units(const ChannelShape* s, GLOBAL const u8* p, const int type, i64 first, i64 image_stride,
                       num (*v)[UNIT]) {
  u32 packed[UNITS][PACKED];
  UNROLL
  EACH_UNIT(u)
  if (HAS_UNIT(s, u))
    read_packed(p, type, offset_of(s, first, image_stride, u), 1, UNIT, s->aligned ? UNIT : UNIT + 1, packed[u]);
  UNROLL
  EACH_UNIT(u) {
    UNROLL
    for (int j = 0; j < UNIT; ++j)
      v[u][j] = HAS_UNIT(s, u) ? decode(type, unpack_bits(packed[u], SIZE_OF(type), j)) : 0;
  }
}

INLINE void write_units(const ChannelShape* s, const Formula* f, GLOBAL u8* out, i64 first, num (*v)[UNIT]) {
  UNROLL
  EACH_UNIT(u) {
    num old[UNIT];
    const int n = s->aligned ? UNIT : UNIT + 1;
    if (!HAS_UNIT(s, u)) break;
    const i64 at = offset_of(s, first, s->at[2].image, u);
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
  const num pivot = ALL_LANES(a, sums).sum / f->length;
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
  a = ALL_LANES(a, more_sums);
  const num rest = a.sum / f->length, all = a.squares - a.sum * rest;  // what the rounding of the pivot dropped
  *mean = pivot + rest;
  *squares = all < 0 ? 0 : all;
}

KERNEL THREADS_PER_BLOCK(THREADS)
    channels(const ChannelShape s,
#if PER_THREAD
             FIXED Walk w, FIXED Strides to_x, FIXED Strides to_dy, FIXED Strides to_out, FIXED Strides to_parameter,
#endif
             GLOBAL const u8* in, GLOBAL const u8* gradient, GLOBAL u8* out, GLOBAL const u8* scale,
             GLOBAL const u8* bias, GLOBAL const u8* mean, GLOBAL const u8* variance, GLOBAL u8* next_mean,
             GLOBAL u8* next_variance, GLOBAL u8* first, GLOBAL u8* second, const Formula f) {
  SHARED Accumulator sums[LANES];
  SHARED Accumulator more_sums[LANES];
  num x[UNITS][UNIT];
  i64 first_of[4];  // the operands as in s.at
#if PER_THREAD
  const Strides* const strides[4] = {&to_x, &to_dy, &to_out, &to_parameter};
  const int channel = BLOCK(0) * THREADS + THREAD(0);
  if (channel >= w.count) return;
  locate(&w, channel, strides, 4, first_of);
#else
  UNROLL
  for (int o = 0; o < 4; ++o) first_of[o] = s.at[o].first + BLOCK(0) * s.at[o].channel;
#endif
  const i64 at = first_of[3];
  const num factor = ELEMENT(TYPE(SCALES), scale, at);
#if !BACKWARD || GATED
  const num shift = f.has_bias ? ELEMENT(TYPE(BIASES), bias, at) : 0;
#endif
  num center, squares, inverse;
  read_units(&s, in, IN_TYPE, first_of[0], s.at[0].image, x);
#if !BACKWARD
  find_moments(&s, &f, x, sums, more_sums, &center, &squares);
  inverse = 1 / sqrt_of(squares / f.length + f.epsilon);
  if (LANE == 0 && f.running) {
    const num unbiased = f.length > 1 ? squares / (f.length - 1) : squares;
    const num new_mean = updated(&f, mean, at, center), new_variance = updated(&f, variance, at, unbiased);
    SET_ELEMENT(TYPE(MOMENTS), next_mean, at, new_mean);
    SET_ELEMENT(TYPE(MOMENTS), next_variance, at, new_variance);
  }
  if (LANE == 0 && f.saved) {
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
  SHARED Accumulator sums_of_dy[LANES];
  num dy[UNITS][UNIT];
  read_units(&s, gradient, TYPE(GRAD), first_of[1], s.at[1].image, dy);
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
  sum = ALL_LANES(sum, sums_of_dy);
  const num dscale = sum.squares * inverse;
  if (LANE == 0 && f.has_dscale) store_gradient(&f, first, at, dscale);
  if (LANE == 0 && f.has_dbias) store_gradient(&f, second, at, sum.sum);
  const num mean_dy = sum.sum / f.length, of_x = inverse * (dscale / f.length);
  UNROLL
  EACH_UNIT(u) {
    UNROLL
    for (int j = 0; j < UNIT; ++j) x[u][j] = a * (dy[u][j] - mean_dy - of_x * (x[u][j] - center));
  }
#endif
  write_units(&s, &f, out, first_of[2], x);
}
