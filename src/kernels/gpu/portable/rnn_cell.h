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
  GLOBAL stored *y, *hy, *cy, *gates, *previous_h;
  GLOBAL float* previous_c;
  GLOBAL stored* recurrent_n;
} Results;

#if defined(__CUDACC__) && OUT_TYPE != TYPE_fp32
// Errors of a few units of 2^-22, of 16 bits less than half a unit in the last place.
INLINE float power_of_e(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * 1.4426950408889634f));
  return power;
}
INLINE float reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
INLINE float logistic(float x) { return reciprocal(1 + power_of_e(-x)); }
INLINE float tanh_of(float x) {
  const float size = x < 0 ? -x : x, u = power_of_e(-2 * size), q = x * x;
  const float series = x - x * q * (1 / 3.0f - q * (2 / 15.0f - q * (17 / 315.0f)));
  const float t = (1 - u) * reciprocal(1 + u);
  return size < 0.25f ? series : x < 0 ? -t : t;
}
#else
INLINE float logistic(float x) {
  const float u = exp_of(-abs_of(x));
  return (x >= 0 ? 1.0f : u) / (1.0f + u);
}
INLINE float tanh_of(float x) {
  const float u = expm1_nonpositive(-2 * abs_of(x)), t = u / (u + 2);
  return x < 0 ? t : -t;
}
#endif

#if OUT_TYPE == TYPE_fp32
INLINE float number_of(stored v) { return v; }
INLINE stored stored_of(float v) { return v; }
#else
INLINE float number_of(stored v) { return float_of(OUT_TYPE, v); }
INLINE stored stored_of(float v) { return (stored)bits_of_float(OUT_TYPE, v); }
#endif

/// What is added to the product of the input, and to that of the state.
typedef struct {
  float input, state;
} Biases;

INLINE Biases biases_of(Step s, GLOBAL const stored* w, int gate, int unit) {
  Biases b = {0, 0};
  if (s.input_bias < 0) return b;
  b.input = LOAD(OUT, w, s.input_bias + (i64)gate * s.hidden + unit);
  b.state = LOAD(OUT, w, s.recurrent_bias + (i64)gate * s.hidden + unit);
  return b;
}

/// An activated gate; a GRU's last one is not, as it depends on another: then both are what is added to what.
typedef struct {
  float value, of_state;
} Gate;

/// in, state: the gate's products of the input and of the state before the step.
INLINE Gate gate_of(Step s, int gate, float in, float state, Biases b, int sample) {
  Gate g;
  in += b.input;
  if (sample < s.begun || s.bias_of_first) state += b.state;
  g.of_state = state;
#if MODE == 3
  g.value = gate == 2 ? in : logistic(in + state);
#elif MODE == 2
  g.value = gate == 3 ? tanh_of(in + state) : logistic(in + state);
#elif MODE == 1
  g.value = tanh_of(in + state);
#else
  g.value = in + state <= 0 ? 0.0f : in + state;
#endif
  return g;
}

/// A cell after a step.
typedef struct {
  float h, c, gate[GATES], of_n;  // of_n: a GRU's product of the state for n
} Cell;

/// c and h: before the step; of_n: Gate::of_state of a GRU's last gate.
INLINE Cell next_cell(const float* value, float of_n, float c, float h) {
  Cell cell;
  UNROLL
  for (int g = 0; g < GATES; ++g) cell.gate[g] = value[g];
  cell.c = 0;
  cell.of_n = of_n;
#if MODE == 2
  cell.c = cell.gate[1] * c + cell.gate[0] * cell.gate[3];
  cell.h = cell.gate[2] * tanh_of(cell.c);
#elif MODE == 3
  cell.gate[2] = tanh_of(value[2] + cell.gate[1] * of_n);
  cell.h = cell.gate[2] + cell.gate[0] * (h - cell.gate[2]);
#else
  cell.h = cell.gate[0];
#endif
  return cell;
}

/// c and h: before the step.
INLINE void write_cell(Step s, Cell cell, Results to, int sample, int unit, float c, stored h) {
  const int ends = sample >= s.continued;
  const i64 number = (i64)sample * s.hidden + unit;
  const i64 place = sample * s.width + unit, of_gates = sample * s.gates + unit;
  STORE(OUT, to.y, place, cell.h);
  if (ends && s.has_hy) STORE(OUT, to.hy, number, cell.h);
  if (MODE == 2 && ends && s.has_cy) STORE(OUT, to.cy, number, cell.c);
  if (!s.keeps) return;
  if (MODE == 2) to.previous_c[place] = c;
  if (MODE == 3) STORE(OUT, to.recurrent_n, place, cell.of_n);
  UNROLL
  for (int g = 0; g < GATES; ++g) STORE(OUT, to.gates, of_gates + (i64)g * s.hidden, cell.gate[g]);
  to.previous_h[place] = h;
}

/// What a step backward reads and writes.
typedef struct {
  GLOBAL const stored *dy, *dhy, *dcy, *gates, *previous_h;
  GLOBAL const float* previous_c;
  GLOBAL const stored* recurrent_n;
  GLOBAL stored *dhx, *dcx, *input_gradient, *recurrent_gradient;
} Gradients;

/// What a cell reads before the gradient of its state is known, not yet converted: nothing waits for it until then.
typedef struct {
  stored gate[GATES], dy, dhy;
  float carried;  // from step to step: the gradient of an LSTM's c; of a GRU's h, through z
  stored dcy;
  float c;         // LSTM, before the step
  stored h, of_n;  // GRU: before the step; the product of the state for n
} Kept;

/// Without what is carried.
INLINE Kept kept_of(Step s, Gradients from, int sample, int unit) {
  const i64 number = (i64)sample * s.hidden + unit;
  const i64 place = sample * s.width + unit, of_gates = sample * s.gates + unit;
  const int continues = sample < s.continued;
  Kept kept;
  UNROLL
  for (int g = 0; g < GATES; ++g) kept.gate[g] = from.gates[of_gates + (i64)g * s.hidden];
  kept.dy = from.dy[place];
  kept.dhy = kept.dcy = kept.h = kept.of_n = 0;
  kept.carried = kept.c = 0;
  if (!continues && s.keeps) kept.dhy = from.dhy[number];
#if MODE == 2
  if (!continues && s.has_cx) kept.dcy = from.dcy[number];
  kept.c = from.previous_c[place];
#elif MODE == 3
  kept.h = from.previous_h[place];
  kept.of_n = from.recurrent_n[place];
#endif
  return kept;
}

/// What the gradient of h is multiplied by.
typedef struct {
  float dh, dc;  // without what the step after adds through the weights
  float of_c, of_gate[GATES], of_carried, r;
} Terms;

INLINE Terms terms_of(Kept kept) {
  Terms t;
  float gate[GATES];
  UNROLL
  for (int g = 0; g < GATES; ++g) gate[g] = number_of(kept.gate[g]);
  t.dh = number_of(kept.dy) + number_of(kept.dhy);
  t.dc = t.of_c = t.of_carried = t.r = 0;
#if MODE == 2
  const float i = gate[0], f = gate[1], o = gate[2], n = gate[3], of_h = tanh_of(f * kept.c + i * n);
  t.dc = kept.carried + number_of(kept.dcy);
  t.of_c = o * (1 - of_h * of_h);
  t.of_gate[0] = n * i * (1 - i);
  t.of_gate[1] = kept.c * f * (1 - f);
  t.of_gate[2] = of_h * o * (1 - o);
  t.of_gate[3] = i * (1 - n * n);
  t.of_carried = f;
#elif MODE == 3
  const float z = gate[0], r = gate[1], n = gate[2];
  t.dh += kept.carried;
  t.of_gate[0] = (number_of(kept.h) - n) * z * (1 - z);
  t.of_gate[1] = number_of(kept.of_n) * r * (1 - r);
  t.of_gate[2] = (1 - z) * (1 - n * n);
  t.of_carried = z;
  t.r = r;
#elif MODE == 1
  t.of_gate[0] = 1 - gate[0] * gate[0];
#else
  t.of_gate[0] = gate[0];
#endif
  return t;
}

/// Gradients of a cell: of the gates' products of the input and of the state, and what is carried to the step before.
typedef struct {
  float of_input[GATES], of_state[GATES], carried;
} Slopes;

/// product: what the step after adds to the gradient of h.
INLINE Slopes slopes_of(Terms t, float product) {
  Slopes to;
  const float dh = t.dh + product;
#if MODE == 2
  const float of_c = t.dc + dh * t.of_c;
  UNROLL
  for (int g = 0; g < GATES; ++g) to.of_input[g] = (g == 2 ? dh : of_c) * t.of_gate[g];
  to.carried = of_c * t.of_carried;
#elif MODE == 3
  to.of_input[0] = dh * t.of_gate[0];
  to.of_input[2] = dh * t.of_gate[2];
  to.of_input[1] = to.of_input[2] * t.of_gate[1];
  to.carried = dh * t.of_carried;
#else
  to.of_input[0] = MODE == 1 ? dh * t.of_gate[0] : t.of_gate[0] > 0 ? dh : 0.0f;
  to.carried = 0;
#endif
  UNROLL
  for (int g = 0; g < GATES; ++g) to.of_state[g] = MODE == 3 && g == 2 ? to.of_input[g] * t.r : to.of_input[g];
  return to;
}

INLINE void write_slopes(Step s, Slopes slopes, Gradients to, int sample, int unit) {
  const i64 of_gates = sample * s.gates + unit, number = (i64)sample * s.hidden + unit;
  if (MODE == 2 && sample >= s.begun && s.has_cy) STORE(OUT, to.dcx, number, slopes.carried);
  if (MODE == 3 && sample >= s.begun && s.has_hy) STORE(OUT, to.dhx, number, slopes.carried);
  UNROLL
  for (int g = 0; g < GATES; ++g) {
    STORE(OUT, to.input_gradient, of_gates + (i64)g * s.hidden, slopes.of_input[g]);
    if (MODE == 3) STORE(OUT, to.recurrent_gradient, of_gates + (i64)g * s.hidden, slopes.of_state[g]);
  }
}
