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

/// What a cell reads before the product of its state is known.
typedef struct {
  float in[GATES], bias[GATES];  // the product of the input with its bias; of the state
  float c;
} Inputs;

INLINE Inputs inputs_of(Step s, GLOBAL const stored* x, GLOBAL const stored* w, GLOBAL const stored* cx,
                        GLOBAL const float* c, int sample, int unit) {
  const int begins = sample >= s.begun;
  Inputs from;
  UNROLL
  for (int g = 0; g < GATES; ++g) {
    from.in[g] = LOAD(OUT, x, sample * s.x_pitch + g * s.x_gate + unit);
    from.bias[g] = 0;
    if (s.input_bias < 0) continue;
    from.in[g] += LOAD(OUT, w, s.input_bias + (i64)g * s.hidden + unit);
    if (!begins || s.bias_of_first) from.bias[g] = LOAD(OUT, w, s.recurrent_bias + (i64)g * s.hidden + unit);
  }
  const i64 number = (i64)sample * s.hidden + unit;
  from.c = MODE != 2 ? 0.0f : !begins ? c[number] : s.has_cx ? LOAD(OUT, cx, number) : 0.0f;
  return from;
}

/// h after the step; state: h before it times the recurrent weights, for each gate.
INLINE float next_state(Step s, Inputs from, Results to, int sample, int unit, float* state, float before) {
  const int ends = sample >= s.continued;
  const i64 number = (i64)sample * s.hidden + unit;
  const i64 place = sample * s.width + unit, of_gates = sample * s.gates + unit;
  float gate[GATES];
  UNROLL
  for (int g = 0; g < GATES; ++g) state[g] += from.bias[g];
  float after;
#if MODE == 2
  UNROLL
  for (int g = 0; g < 3; ++g) gate[g] = logistic(from.in[g] + state[g]);
  gate[3] = tanh_of(from.in[3] + state[3]);
  const float c_after = gate[1] * from.c + gate[0] * gate[3];
  after = gate[2] * tanh_of(c_after);
  to.c[number] = c_after;
  if (s.keeps) to.previous_c[place] = from.c;
  if (ends && s.has_cy) STORE(OUT, to.cy, number, c_after);
#elif MODE == 3
  gate[0] = logistic(from.in[0] + state[0]);
  gate[1] = logistic(from.in[1] + state[1]);
  gate[2] = tanh_of(from.in[2] + gate[1] * state[2]);
  after = gate[2] + gate[0] * (before - gate[2]);
  if (s.keeps) STORE(OUT, to.recurrent_n, place, state[2]);
#elif MODE == 1
  after = tanh_of(from.in[0] + state[0]);
  gate[0] = after;
#else
  after = from.in[0] + state[0] <= 0 ? 0.0f : from.in[0] + state[0];
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

/// What a step backward reads and writes.
typedef struct {
  GLOBAL const stored *dy, *dhy, *dcy, *gates, *previous_h;
  GLOBAL const float* previous_c;
  GLOBAL const stored* recurrent_n;
  GLOBAL float* carried;  // from step to step: the gradient of an LSTM's c; of a GRU's h, through z
  GLOBAL stored *dhx, *dcx, *input_gradient, *recurrent_gradient;
} Gradients;

/// What a cell reads before the gradient of its state is known.
typedef struct {
  float gate[GATES];
  float dh;       // without what the step after adds through the weights
  float dc;       // LSTM
  float before;   // LSTM: c; GRU: h
  float n_state;  // GRU: the product of the state for n
} Kept;

INLINE Kept kept_of(Step s, Gradients from, int sample, int unit) {
  const i64 number = (i64)sample * s.hidden + unit;
  const i64 place = sample * s.width + unit, of_gates = sample * s.gates + unit;
  const int continues = sample < s.continued;
  Kept kept;
  UNROLL
  for (int g = 0; g < GATES; ++g) kept.gate[g] = LOAD(OUT, from.gates, of_gates + (i64)g * s.hidden);
  kept.dh = LOAD(OUT, from.dy, place);
  if (!continues && s.keeps) kept.dh += LOAD(OUT, from.dhy, number);
  kept.dc = kept.before = kept.n_state = 0;
#if MODE == 2
  kept.dc = continues ? from.carried[number] : s.has_cx ? LOAD(OUT, from.dcy, number) : 0.0f;
  kept.before = from.previous_c[place];
#elif MODE == 3
  if (continues) kept.dh += from.carried[number];
  kept.before = LOAD(OUT, from.previous_h, place);
  kept.n_state = LOAD(OUT, from.recurrent_n, place);
#endif
  return kept;
}

/// of_state: the gradients of the gates' products of the state; product: what the step after adds to that of h.
INLINE void gradients_of(Step s, Kept kept, Gradients to, int sample, int unit, float product, float* of_state) {
  const i64 of_gates = sample * s.gates + unit;
#if MODE >= 2
  const i64 number = (i64)sample * s.hidden + unit;
#endif
  const float dh = kept.dh + product;
  float of_input[GATES];
#if MODE == 2
  const float i = kept.gate[0], f = kept.gate[1], o = kept.gate[2], n = kept.gate[3];
  const float t = tanh_of(f * kept.before + i * n);
  const float of_c = kept.dc + dh * o * (1 - t * t);
  of_input[0] = of_c * n * i * (1 - i);
  of_input[1] = of_c * kept.before * f * (1 - f);
  of_input[2] = dh * t * o * (1 - o);
  of_input[3] = of_c * i * (1 - n * n);
  to.carried[number] = of_c * f;
  if (sample >= s.begun && s.has_cy) STORE(OUT, to.dcx, number, of_c * f);
#elif MODE == 3
  const float z = kept.gate[0], r = kept.gate[1], n = kept.gate[2];
  of_input[0] = dh * (kept.before - n) * z * (1 - z);
  of_input[2] = dh * (1 - z) * (1 - n * n);
  of_input[1] = of_input[2] * kept.n_state * r * (1 - r);
  to.carried[number] = dh * z;
  if (sample >= s.begun && s.has_hy) STORE(OUT, to.dhx, number, dh * z);
#elif MODE == 1
  of_input[0] = dh * (1 - kept.gate[0] * kept.gate[0]);
#else
  of_input[0] = kept.gate[0] > 0 ? dh : 0.0f;
#endif
  UNROLL
  for (int g = 0; g < GATES; ++g) {
    of_state[g] = MODE == 3 && g == 2 ? of_input[g] * kept.gate[1 % GATES] : of_input[g];
    STORE(OUT, to.input_gradient, of_gates + (i64)g * s.hidden, of_input[g]);
    if (MODE == 3) STORE(OUT, to.recurrent_gradient, of_gates + (i64)g * s.hidden, of_state[g]);
  }
}
