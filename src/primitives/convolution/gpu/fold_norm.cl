// Scale and bias per channel of a batch norm with given moments that follows a bias, one thread per channel:
// scale = factor / sqrt(variance + epsilon), shift = (bias - mean) * scale + add.
// Options: IN (type of the bias), OUT (type of all others), NUM (arithmetic), HAS_BIAS (0: none).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/walk.h"
#include "kernels/gpu/portable/functions.h"

#define THREADS 256

INLINE num parameter(GLOBAL const u8* p, i64 channel) {
  return decode(OUT_TYPE, load_bits(p, SIZE_OF(OUT_TYPE), channel));
}

/// `folded` has the scales of all channels, then their shifts.
KERNEL THREADS_PER_BLOCK(THREADS)
    fold_norm(GLOBAL const u8* factor, GLOBAL const u8* add, GLOBAL const u8* mean, GLOBAL const u8* variance,
              GLOBAL const u8* bias, GLOBAL u8* folded, const i64 channels, const scalar epsilon) {
  const i64 c = (i64)BLOCK(0) * THREADS + THREAD(0);
  if (c >= channels) return;
  const num scale = parameter(factor, c) / sqrt_of(parameter(variance, c) + num_of(epsilon));
#if HAS_BIAS
  const num from = decode(IN_TYPE, load_bits(bias, SIZE_OF(IN_TYPE), c)) - parameter(mean, c);
#else
  const num from = -parameter(mean, c);
#endif
  store_bits(folded, SIZE_OF(OUT_TYPE), c, encode(OUT_TYPE, scale));
  store_bits(folded, SIZE_OF(OUT_TYPE), channels + c, encode(OUT_TYPE, from * scale + parameter(add, c)));
}
