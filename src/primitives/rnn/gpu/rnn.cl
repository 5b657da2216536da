// A step of a layer in one direction: a thread per sample and hidden unit, neighbours at neighbouring units. The
// products are there already. Options: MODE (0 ReLU, 1 tanh, 2 LSTM, 3 GRU), IN = OUT (the network's type), NUM =
// float.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/functions.h"

#define THREADS 256
#if MODE == 2
#define GATES 4
#elif MODE == 3
#define GATES 3
#else
#define GATES 1
#endif

typedef STORED(OUT) stored;

/// As gpu/steps.cc has it. Pitches and offsets in elements; buffers begin at sample 0, unit 0 of the direction.
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

INLINE float logistic(float x) {
  const float u = exp_of(-abs_of(x));
  return (x >= 0 ? 1.0f : u) / (1.0f + u);
}
INLINE float tanh_of(float x) {
  const float u = expm1_nonpositive(-2 * abs_of(x)), t = u / (u + 2);
  return x < 0 ? t : -t;
}

// Buffers that a call does not use may be any.
KERNEL THREADS_PER_BLOCK(THREADS)
    forward(Step s, GLOBAL const stored* x, GLOBAL const float* recurrent, GLOBAL const stored* w, GLOBAL stored* h,
            GLOBAL const stored* cx, GLOBAL float* c, GLOBAL stored* y, GLOBAL stored* hy, GLOBAL stored* cy,
            GLOBAL stored* gates, GLOBAL stored* previous_h, GLOBAL float* previous_c, GLOBAL stored* recurrent_n) {
  const i64 number = (i64)BLOCK(0) * THREADS + THREAD(0);
  if (number >= (i64)s.samples * s.hidden) return;
  const int sample = (int)(number / s.hidden), unit = (int)(number % s.hidden);
  const int begins = sample >= s.begun, ends = sample >= s.continued;
  const i64 place = sample * s.width + unit, of_gates = sample * s.gates + unit;
  float in[GATES], state[GATES], gate[GATES];
  UNROLL
  for (int g = 0; g < GATES; ++g) {
    in[g] = LOAD(OUT, x, sample * s.x_pitch + g * s.x_gate + unit);
    state[g] = recurrent[number + ((i64)sample * (GATES - 1) + g) * s.hidden];
    if (s.input_bias < 0) continue;
    in[g] += LOAD(OUT, w, s.input_bias + (i64)g * s.hidden + unit);
    if (!begins || s.bias_of_first) state[g] += LOAD(OUT, w, s.recurrent_bias + (i64)g * s.hidden + unit);
  }
  const float before = LOAD(OUT, h, number);
  float after;
#if MODE == 2
  UNROLL
  for (int g = 0; g < 3; ++g) gate[g] = logistic(in[g] + state[g]);
  gate[3] = tanh_of(in[3] + state[3]);
  const float c_before = !begins ? c[number] : s.has_cx ? LOAD(OUT, cx, number) : 0.0f;
  const float c_after = gate[1] * c_before + gate[0] * gate[3];
  after = gate[2] * tanh_of(c_after);
  c[number] = c_after;
  if (s.keeps) previous_c[place] = c_before;
  if (ends && s.has_cy) STORE(OUT, cy, number, c_after);
#elif MODE == 3
  gate[0] = logistic(in[0] + state[0]);
  gate[1] = logistic(in[1] + state[1]);
  gate[2] = tanh_of(in[2] + gate[1] * state[2]);
  after = gate[2] + gate[0] * (before - gate[2]);
  if (s.keeps) STORE(OUT, recurrent_n, place, state[2]);
#elif MODE == 1
  after = tanh_of(in[0] + state[0]);
  gate[0] = after;
#else
  after = in[0] + state[0] <= 0 ? 0.0f : in[0] + state[0];
  gate[0] = after;
#endif
  if (s.keeps) {
    UNROLL
    for (int g = 0; g < GATES; ++g) STORE(OUT, gates, of_gates + (i64)g * s.hidden, gate[g]);
    STORE(OUT, previous_h, place, before);
  }
  STORE(OUT, h, number, after);
  STORE(OUT, y, place, after);
  if (ends && s.has_hy) STORE(OUT, hy, number, after);
}

KERNEL THREADS_PER_BLOCK(THREADS)
    backward(Step s, GLOBAL const stored* dy, GLOBAL const float* product, GLOBAL float* direct, GLOBAL float* dc,
             GLOBAL const stored* dhy, GLOBAL const stored* dcy, GLOBAL stored* dhx, GLOBAL stored* dcx,
             GLOBAL const stored* gates, GLOBAL const stored* previous_h, GLOBAL const float* previous_c,
             GLOBAL const stored* recurrent_n, GLOBAL stored* input_gradient, GLOBAL stored* recurrent_gradient) {
  const i64 number = (i64)BLOCK(0) * THREADS + THREAD(0);
  if (number >= (i64)s.samples * s.hidden) return;
  const int sample = (int)(number / s.hidden), unit = (int)(number % s.hidden);
  const int continues = sample < s.continued;
  const i64 place = sample * s.width + unit, of_gates = sample * s.gates + unit;
  float gate[GATES], of_input[GATES];
  UNROLL
  for (int g = 0; g < GATES; ++g) gate[g] = LOAD(OUT, gates, of_gates + (i64)g * s.hidden);
  float dh = LOAD(OUT, dy, place);
  if (continues) dh += product[number];
  if (!continues && s.keeps) dh += LOAD(OUT, dhy, number);
#if MODE == 2
  const float before = previous_c[place], i = gate[0], f = gate[1], o = gate[2], n = gate[3];
  const float t = tanh_of(f * before + i * n);
  const float of_c = (continues ? dc[number] : s.has_cx ? LOAD(OUT, dcy, number) : 0.0f) + dh * o * (1 - t * t);
  of_input[0] = of_c * n * i * (1 - i);
  of_input[1] = of_c * before * f * (1 - f);
  of_input[2] = dh * t * o * (1 - o);
  of_input[3] = of_c * i * (1 - n * n);
  dc[number] = of_c * f;
  if (sample >= s.begun && s.has_cy) STORE(OUT, dcx, number, of_c * f);
#elif MODE == 3
  if (continues) dh += direct[number];
  const float z = gate[0], r = gate[1], n = gate[2];
  of_input[0] = dh * (LOAD(OUT, previous_h, place) - n) * z * (1 - z);
  of_input[2] = dh * (1 - z) * (1 - n * n);
  of_input[1] = of_input[2] * LOAD(OUT, recurrent_n, place) * r * (1 - r);
  UNROLL
  for (int g = 0; g < GATES; ++g)
    STORE(OUT, recurrent_gradient, of_gates + (i64)g * s.hidden, of_input[g] * (g == 2 ? r : 1.0f));
  direct[number] = dh * z;
  if (sample >= s.begun && s.has_hy) STORE(OUT, dhx, number, dh * z);
#elif MODE == 1
  of_input[0] = dh * (1 - gate[0] * gate[0]);
#else
  of_input[0] = gate[0] > 0 ? dh : 0.0f;
#endif
  UNROLL
  for (int g = 0; g < GATES; ++g) STORE(OUT, input_gradient, of_gates + (i64)g * s.hidden, of_input[g]);
}
