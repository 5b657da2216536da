// A step of a layer in one direction: a thread per sample and hidden unit, neighbours at neighbouring units. The
// products are there already. Options: those of rnn_cell.h.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/rnn_cell.h"

#define THREADS 256

// Buffers that a call does not use may be any.
KERNEL THREADS_PER_BLOCK(THREADS)
    forward(Step s, GLOBAL const stored* x, GLOBAL const float* recurrent, GLOBAL const stored* w, GLOBAL stored* h,
            GLOBAL const stored* cx, GLOBAL float* c, GLOBAL stored* y, GLOBAL stored* hy, GLOBAL stored* cy,
            GLOBAL stored* gates, GLOBAL stored* previous_h, GLOBAL float* previous_c, GLOBAL stored* recurrent_n) {
  const i64 number = (i64)BLOCK(0) * THREADS + THREAD(0);
  if (number >= (i64)s.samples * s.hidden) return;
  const int sample = (int)(number / s.hidden), unit = (int)(number % s.hidden);
  const Results results = {c, y, hy, cy, gates, previous_h, previous_c, recurrent_n};
  float state[GATES];
  UNROLL
  for (int g = 0; g < GATES; ++g) state[g] = recurrent[number + ((i64)sample * (GATES - 1) + g) * s.hidden];
  STORE(OUT, h, number, next_state(s, x, w, cx, results, sample, unit, state, LOAD(OUT, h, number)));
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
