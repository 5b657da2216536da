// The cell of a recurrent network. Options: MODE (0 ReLU, 1 tanh, 2 LSTM, 3 GRU), IN = OUT (the network's type), NUM =
// float.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/functions.h"

#if MODE == 2
#define GATES 4
#elif MODE == 3
#define GATES 3
#else
#define GATES 1
#endif

typedef STORED(OUT) stored;

/// As gpu/steps.h has it. Pitches and offsets in elements; buffers begin at sample 0, unit 0 of the direction.
typedef struct {
  i64 x_pitch, x_gate;             // of the products of the input
  i64 gates;                       // from sample to sample
  i64 width;                       // the same of outputs of layers
  i64 input_bias, recurrent_bias;  // in w; negative: none
  int samples, begun, continued, hidden;
  int bias_of_first;
  int has_cx, has_hy, has_cy;  // backward: dcy, dhx, dcx
  int keeps;                   // for the backward passes; backward: has dhy
} Step;

/// What a step writes.
typedef struct {
  GLOBAL float* c;
  GLOBAL stored *y, *hy, *cy, *gates, *previous_h;
  GLOBAL float* previous_c;
  GLOBAL stored* recurrent_n;
} Results;

INLINE float logistic(float x) {
  const float u = exp_of(-abs_of(x));
  return (x >= 0 ? 1.0f : u) / (1.0f + u);
}
INLINE float tanh_of(float x) {
  const float u = expm1_nonpositive(-2 * abs_of(x)), t = u / (u + 2);
  return x < 0 ? t : -t;
}

/// h after the step; state: h before it times the recurrent weights, for each gate.
INLINE float next_state(Step s, GLOBAL const stored* x, GLOBAL const stored* w, GLOBAL const stored* cx, Results to,
                        int sample, int unit, float* state, float before) {
  const int begins = sample >= s.begun, ends = sample >= s.continued;
  const i64 number = (i64)sample * s.hidden + unit;
  const i64 place = sample * s.width + unit, of_gates = sample * s.gates + unit;
  float in[GATES], gate[GATES];
  UNROLL
  for (int g = 0; g < GATES; ++g) {
    in[g] = LOAD(OUT, x, sample * s.x_pitch + g * s.x_gate + unit);
    if (s.input_bias < 0) continue;
    in[g] += LOAD(OUT, w, s.input_bias + (i64)g * s.hidden + unit);
    if (!begins || s.bias_of_first) state[g] += LOAD(OUT, w, s.recurrent_bias + (i64)g * s.hidden + unit);
  }
  float after;
#if MODE == 2
  UNROLL
  for (int g = 0; g < 3; ++g) gate[g] = logistic(in[g] + state[g]);
  gate[3] = tanh_of(in[3] + state[3]);
  const float c_before = !begins ? to.c[number] : s.has_cx ? LOAD(OUT, cx, number) : 0.0f;
  const float c_after = gate[1] * c_before + gate[0] * gate[3];
  after = gate[2] * tanh_of(c_after);
  to.c[number] = c_after;
  if (s.keeps) to.previous_c[place] = c_before;
  if (ends && s.has_cy) STORE(OUT, to.cy, number, c_after);
#elif MODE == 3
  gate[0] = logistic(in[0] + state[0]);
  gate[1] = logistic(in[1] + state[1]);
  gate[2] = tanh_of(in[2] + gate[1] * state[2]);
  after = gate[2] + gate[0] * (before - gate[2]);
  if (s.keeps) STORE(OUT, to.recurrent_n, place, state[2]);
#elif MODE == 1
  after = tanh_of(in[0] + state[0]);
  gate[0] = after;
#else
  after = in[0] + state[0] <= 0 ? 0.0f : in[0] + state[0];
  gate[0] = after;
#endif
  if (s.keeps) {
    UNROLL
    for (int g = 0; g < GATES; ++g) STORE(OUT, to.gates, of_gates + (i64)g * s.hidden, gate[g]);
    STORE(OUT, to.previous_h, place, before);
  }
  STORE(OUT, to.y, place, after);
  if (ends && s.has_hy) STORE(OUT, to.hy, number, after);
  return after;
}
