// Batch norm with given moments in one launch. A thread has the same unit of VECTOR neighbours in every `step`-th of
// the images (pixels with ACROSS), so that it computes their coefficients once.
// Options: IN (x), OUT (y), NUM (arithmetic), SCALES, BIASES, MOMENTS (parameters), ACROSS (1: neighbours are channels,
// 0: elements of one).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/functions.h"
#include "kernels/gpu/portable/bnorm_channel_shape.h"

#define IN_FLIGHT 4  // units of a thread
#if ACROSS
#define CHANNELS VECTOR  // of a unit
#else
#define CHANNELS 1
#endif

/// `vectors`: whether vectors of parameters are aligned.
typedef struct {
  scalar epsilon, low, high, blend, keep;
  int inverse, has_bias, vectors;
} Formula;

KERNEL THREADS_PER_BLOCK(256) inference(const ChannelShape s, const int images, const int step, GLOBAL const u8* in,
                                        GLOBAL u8* out, GLOBAL const u8* scale, GLOBAL const u8* bias,
                                        GLOBAL const u8* mean, GLOBAL const u8* variance, const Formula f) {
  const int thread = BLOCK(0) * 256 + THREAD(0), first = divide(thread, s.per_image);
  const int unit = thread - first * (int)s.per_image.divisor;
  const int row = ACROSS ? 0 : divide(unit, s.per_channel);
  const int place = (unit - row * (int)s.per_channel.divisor) * VECTOR;  // in the channel, or of the first one
  const i64 from = s.at[0].first + row * s.at[0].channel + place, to = s.at[2].first + row * s.at[2].channel + place;
  const int channel = ACROSS ? unit * VECTOR : row, n = s.aligned ? VECTOR : VECTOR + 1;
  num center[CHANNELS], factor[CHANNELS], shift[CHANNELS], deviation[CHANNELS];
  if (first >= step) return;
  const i64 at_channel = s.at[3].first + channel * s.at[3].channel, apart = s.at[3].channel;
  const int count = f.vectors ? CHANNELS : CHANNELS + 1;  // more than there are: each is accessed
  read_unit(variance, TYPE(MOMENTS), at_channel, apart, CHANNELS, count, deviation);
  read_unit(mean, TYPE(MOMENTS), at_channel, apart, CHANNELS, count, center);
  read_unit(scale, TYPE(SCALES), at_channel, apart, CHANNELS, count, factor);
  if (f.has_bias) read_unit(bias, TYPE(BIASES), at_channel, apart, CHANNELS, count, shift);
  UNROLL
  for (int k = 0; k < CHANNELS; ++k) {
    factor[k] *= f.inverse ? deviation[k] : 1 / sqrt_of(deviation[k] + f.epsilon);
    if (!f.has_bias) shift[k] = 0;
  }
  NO_UNROLL
  for (int image = first; image < images; image += IN_FLIGHT * step) {
    u32 packed[IN_FLIGHT][16];
    UNROLL
    for (int u = 0; u < IN_FLIGHT; ++u)
      if (image + u * step < images)
        read_packed(in, IN_TYPE, from + (image + u * step) * s.at[0].image, 1, VECTOR, n, packed[u]);
    UNROLL
    for (int u = 0; u < IN_FLIGHT; ++u) {
      num v[VECTOR], old[VECTOR];
      const i64 at = to + (image + u * step) * s.at[2].image;
      if (image + u * step >= images) break;
      if (f.keep != 0) read_unit(out, OUT_TYPE, at, 1, VECTOR, n, old);
      UNROLL
      for (int k = 0; k < VECTOR; ++k) {
        const int c = k % CHANNELS;
        num y = (decode(IN_TYPE, unpack_bits(packed[u], SIZE_OF(IN_TYPE), k)) - center[c]) * factor[c] + shift[c];
        y = y > f.high ? f.high : y;
        y = y < f.low ? f.low : y;
        v[k] = blend(f.blend, y, f.keep, f.keep != 0 ? old[k] : 0);
      }
      write_unit(out, OUT_TYPE, at, 1, VECTOR, n, v);
    }
  }
}
