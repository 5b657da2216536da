// A step of a layer in one direction: a thread per sample and hidden unit, neighbours at neighbouring units. The
// products are there already. Options: those of rnn_cell.h.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/rnn_cell.h"

#define THREADS 256

// Buffers that a call does not use may be any.
KERNEL THREADS_PER_BLOCK(THREADS)
    forward(Step s, GLOBAL const stored* x, GLOBAL const stored* w, GLOBAL stored* h, GLOBAL const stored* cx,
            GLOBAL float* c, GLOBAL stored* y, GLOBAL stored* hy, GLOBAL stored* cy, GLOBAL stored* gates,
            GLOBAL stored* previous_h, GLOBAL float* previous_c, GLOBAL stored* recurrent_n,
            GLOBAL const float* recurrent) {
  const i64 number = (i64)BLOCK(0) * THREADS + THREAD(0);
  if (number >= (i64)s.samples * s.hidden) return;
  const int sample = (int)(number / s.hidden), unit = (int)(number % s.hidden);
  const Results results = {y, hy, cy, gates, previous_h, previous_c, recurrent_n};
  float value[GATES];
  Gate gate;
  UNROLL
  for (int g = 0; g < GATES; ++g) {
    gate = gate_of(s, g, LOAD(OUT, x, sample * s.x_pitch + g * s.x_gate + unit),
                   recurrent[number + ((i64)sample * (GATES - 1) + g) * s.hidden], biases_of(s, w, g, unit), sample);
    value[g] = gate.value;
  }
  const float c_before = MODE != 2 ? 0.0f : sample < s.begun ? c[number] : s.has_cx ? LOAD(OUT, cx, number) : 0.0f;
  const stored before = h[number];
  const Cell cell = next_cell(value, gate.of_state, c_before, number_of(before));
  if (MODE == 2) c[number] = cell.c;
  h[number] = stored_of(cell.h);
  write_cell(s, cell, results, sample, unit, c_before, before);
}

KERNEL THREADS_PER_BLOCK(THREADS)
    backward(Step s, GLOBAL const stored* dy, GLOBAL float* carried, GLOBAL const stored* dhy, GLOBAL const stored* dcy,
             GLOBAL stored* dhx, GLOBAL stored* dcx, GLOBAL const stored* gates, GLOBAL const stored* previous_h,
             GLOBAL const float* previous_c, GLOBAL const stored* recurrent_n, GLOBAL stored* input_gradient,
             GLOBAL stored* recurrent_gradient, GLOBAL const float* product) {
  const i64 number = (i64)BLOCK(0) * THREADS + THREAD(0);
  if (number >= (i64)s.samples * s.hidden) return;
  const int sample = (int)(number / s.hidden), unit = (int)(number % s.hidden);
  const Gradients gradients = {dy,          dhy, dcy, gates,          previous_h,        previous_c,
                               recurrent_n, dhx, dcx, input_gradient, recurrent_gradient};
  const int continues = sample < s.continued;
  Kept kept = kept_of(s, gradients, sample, unit);
  if (MODE >= 2 && continues) kept.carried = carried[number];
  const Slopes slopes = slopes_of(terms_of(kept), continues ? product[number] : 0.0f);
  if (MODE >= 2) carried[number] = slopes.carried;
  write_slopes(s, slopes, gradients, sample, unit);
}
