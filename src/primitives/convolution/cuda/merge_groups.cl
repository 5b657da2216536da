// Weights of several groups as those of one, with zeros between them (block-diagonal grouping), and the gradient of the
// former from that of the latter. Options: BITS of an element to copy; or IN and OUT, types of the gradients.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/conv_shapes.h"

#define THREADS 256

#ifdef BITS
#define ELEMENT PASTE(u, BITS)
KERNEL THREADS_PER_BLOCK(THREADS)
    merge_groups(GLOBAL const ELEMENT* RESTRICT w, GLOBAL ELEMENT* RESTRICT to, const MergedGroupsShape s) {
  const int i = BLOCK(0) * THREADS + THREAD(0), depth = s.channels * s.merged;
  if (i >= s.all_outputs * s.taps * depth) return;
  const int row = i / depth, k = row / s.taps, tap = row - k * s.taps;
  const int c = i - row * depth - k / s.outputs % s.merged * s.channels;
  const int inside = c >= 0 && c < s.channels;
  to[i] = inside ? w[(i64)k * s.channels * s.taps + c * s.channel_step + tap * s.tap_step] : 0;
}
#else
KERNEL THREADS_PER_BLOCK(THREADS) split_groups(GLOBAL const STORED(IN) * RESTRICT from, GLOBAL STORED(OUT) * w,
                                               const MergedGroupsShape s, const float alpha, const float beta) {
  const int i = BLOCK(0) * THREADS + THREAD(0);
  if (i >= s.all_outputs * s.taps * s.channels) return;
  const int row = i / s.channels, k = row / s.taps, tap = row - k * s.taps, c = i - row * s.channels;
  float v = alpha * (float)LOAD(IN, from, (i64)row * s.channels * s.merged + k / s.outputs % s.merged * s.channels + c);
  const i64 to = (i64)k * s.channels * s.taps + c * s.channel_step + tap * s.tap_step;
  if (beta != 0) v += beta * (float)LOAD(OUT, w, to);
  STORE(OUT, w, to, v);
}
#endif
