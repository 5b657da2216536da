// Weights of several groups as those of one, with zeros between them (block-diagonal grouping), and the gradient of the
// former from that of the latter. Options: BITS of an element to copy; or IN and OUT, types of the gradients.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"

#define THREADS 256

// The weights of a group: `outputs` x `channels` x `taps`. Merged weights are (k, tap, channel of `merged` groups).
#define SIZES const int all_outputs, const int outputs, const int channels, const int taps, const int merged
#define STEPS const int channel_step, const int tap_step  // of the weights

#ifdef BITS
#define ELEMENT PASTE(u, BITS)
KERNEL THREADS_PER_BLOCK(THREADS)
    merge_groups(GLOBAL const ELEMENT* RESTRICT w, GLOBAL ELEMENT* RESTRICT to, SIZES, STEPS) {
  const int i = BLOCK(0) * THREADS + THREAD(0), depth = channels * merged;
  if (i >= all_outputs * taps * depth) return;
  const int row = i / depth, k = row / taps, tap = row - k * taps;
  const int c = i - row * depth - k / outputs % merged * channels;
  const int inside = c >= 0 && c < channels;
  to[i] = inside ? w[(i64)k * channels * taps + c * channel_step + tap * tap_step] : 0;
}
#else
KERNEL THREADS_PER_BLOCK(THREADS) split_groups(GLOBAL const STORED(IN) * RESTRICT from, GLOBAL STORED(OUT) * w, SIZES,
                                               STEPS, const float alpha, const float beta) {
  const int i = BLOCK(0) * THREADS + THREAD(0);
  if (i >= all_outputs * taps * channels) return;
  const int row = i / channels, k = row / taps, tap = row - k * taps, c = i - row * channels;
  float v = alpha * (float)LOAD(IN, from, (i64)row * channels * merged + k / outputs % merged * channels + c);
  const i64 to = (i64)k * channels * taps + c * channel_step + tap * tap_step;
  if (beta != 0) v += beta * (float)LOAD(OUT, w, to);
  STORE(OUT, w, to, v);
}
#endif
