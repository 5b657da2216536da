// Which scores dropout keeps.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/attention_scalars.h"
#ifndef KERNEL
namespace polymio::kernels {
#endif

/// The factor of a score: 0 if it is dropped.
INLINE float kept_factor(GLOBAL const Scalars* s, u64 element) {
  if (!s->drops) return 1;
  u64 x = s->dropout.seed + element;
  x = HASH_STEP_1(x);
  x = HASH_STEP_2(x);
  x = HASH_STEP_3(x);
  u32 w[5], d, t0, t1, drawn = 0;
  XORWOW_START((u32)x, (u32)(x >> 32), w[0], w[1], w[2], w[3], w[4], d, t0, t1);
  if (s->dropout.offset < ATTENTION_STEPS) {
    for (int i = 0; i <= (int)s->dropout.offset; ++i) XORWOW_STEP(w[0], w[1], w[2], w[3], w[4], d, drawn);
  } else {
    u32 last = 0;
    UNROLL
    for (int n = 0; n < 5; ++n) NO_UNROLL
    for (int b = 0; b < 32; ++b) last ^= (w[n] >> b & 1u) != 0 ? s->dropout.jump[32 * n + b] : 0u;
    drawn = last + d + 362437u * (u32)(s->dropout.offset + 1);
  }
  return drawn >= s->dropout.least ? s->dropout.kept : 0;
}

#ifndef KERNEL
}  // namespace polymio::kernels
#endif
