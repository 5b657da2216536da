// The axes of an implicit GEMM: which source positions its results read. Backward data has one phase per residue of a
// position modulo the stride, with the taps that reach it. Option: DIRECTION (0, 1, 2).
// SPDX-License-Identifier: MIT
#pragma once

/// a / b, faster for small numbers.
INLINE i64 quotient(i64 a, i64 b) { return (((u64)a | (u64)b) >> 32) == 0 ? (i64)((u32)a / (u32)b) : a / b; }

/// One axis of the results of a tile: position phase + j * out_step reads source positions j * in_step + base + i *
/// delta with taps first + i * tap_step.
typedef struct {
  i64 count, phase, out_step, in_step, base, delta, first, taps, tap_step;
} Axis;

INLINE Axis make_axis(i64 phase, i64 in, i64 out, i64 filter, i64 pad, i64 stride, i64 dilation, i64 tap_step,
                      i64 tap_delta) {
  Axis a;
  a.phase = phase;
  a.first = 0;
#if DIRECTION == 1
  a.count = phase < in ? quotient(in - phase + stride - 1, stride) : 0;
  a.out_step = stride;
  a.in_step = 1;
  a.tap_step = tap_step;
  a.delta = -tap_delta;
  // Stride 1 needs no division.
  while (stride > 1 && a.first < tap_step && a.first < filter && (phase + pad - a.first * dilation) % stride != 0)
    ++a.first;
  a.taps = a.first < MIN(tap_step, filter) ? quotient(filter - a.first + tap_step - 1, tap_step) : 0;
  a.base = phase + pad - a.first * dilation;
  if (stride > 1) a.base /= stride;
#else
  a.count = out;
  a.out_step = 1;
  a.in_step = stride;
  a.tap_step = 1;
  a.delta = dilation;
  a.taps = filter;
  a.base = -pad;
#endif
  return a;
}

// Strides of the gathered tensor, its spatial sizes, and strides of the result.
#if DIRECTION == 1
#define SOURCE e.y
#define RESULT e.x
#define SIZE z.out
#elif DIRECTION == 0
#define SOURCE e.x
#define RESULT e.y
#define SIZE z.in
#else
#define SOURCE e.x
#define RESULT e.w
#define SIZE z.in
#endif

#if DIRECTION == 1
#define PHASES(i) MIN(t.stride[i], z.in[i])
#else
#define PHASES(i) 1
#endif

// Distances of neighbouring q in the plain operand and in the result.
#if DIRECTION == 2
#define PLAIN_Q e.y[1]
#define RESULT_Q e.w[0]
#else
#define PLAIN_Q e.w[DIRECTION]
#define RESULT_Q RESULT[1]
#endif
