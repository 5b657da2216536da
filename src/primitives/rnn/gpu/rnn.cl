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
  const Inputs inputs = inputs_of(s, x, w, cx, c, sample, unit);
  STORE(OUT, h, number, next_state(s, inputs, results, sample, unit, state, LOAD(OUT, h, number)));
}

KERNEL THREADS_PER_BLOCK(THREADS)
    backward(Step s, GLOBAL const stored* dy, GLOBAL const float* product, GLOBAL float* carried,
             GLOBAL const stored* dhy, GLOBAL const stored* dcy, GLOBAL stored* dhx, GLOBAL stored* dcx,
             GLOBAL const stored* gates, GLOBAL const stored* previous_h, GLOBAL const float* previous_c,
             GLOBAL const stored* recurrent_n, GLOBAL stored* input_gradient, GLOBAL stored* recurrent_gradient) {
  const i64 number = (i64)BLOCK(0) * THREADS + THREAD(0);
  if (number >= (i64)s.samples * s.hidden) return;
  const int sample = (int)(number / s.hidden), unit = (int)(number % s.hidden);
  const Gradients gradients = {dy,          dhy,     dcy, gates, previous_h,     previous_c,
                               recurrent_n, carried, dhx, dcx,   input_gradient, recurrent_gradient};
  float of_state[GATES];
  gradients_of(s, kept_of(s, gradients, sample, unit), gradients, sample, unit,
               sample < s.continued ? product[number] : 0.0f, of_state);
}
