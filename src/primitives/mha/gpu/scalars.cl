// Collects the scalars of a call at the start of the workspace and starts dropout; at the end reduces the largest
// magnitudes of the blocks.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/attention_scalars.h"

#define THREADS 256

typedef struct {
  u32 w[5];
} Numbers;

INLINE void step_numbers(u32* w) {
  u32 counter = 0, drawn;
  XORWOW_STEP(w[0], w[1], w[2], w[3], w[4], counter, drawn);
  (void)drawn;
}

/// The linear function of a jump by the offset, as on the host: see dropout.cc. Thread b has bit b.
INLINE void set_jump(GLOBAL u32* out, u64 offset, LOCAL Numbers* jump, LOCAL u32* last) {
  const int b = THREAD(0);
  Numbers alone;
  for (int n = 0; n < 5; ++n) alone.w[n] = b / 32 == n ? 1u << b % 32 : 0u;
  step_numbers(alone.w);
  if (b < XORWOW_BITS) {
    jump[b] = alone;
    last[b] = alone.w[4];
  }
  for (u64 rest = offset; rest != 0; rest >>= 1) {
    BARRIER();
    u32 further = 0;
    Numbers twice;
    for (int n = 0; n < 5; ++n) twice.w[n] = 0;
    for (int from = 0; b < XORWOW_BITS && from < XORWOW_BITS; ++from) {
      if ((jump[b].w[from / 32] >> (from % 32) & 1u) == 0) continue;
      further ^= last[from];
      for (int n = 0; n < 5; ++n) twice.w[n] ^= jump[from].w[n];
    }
    BARRIER();
    if (b >= XORWOW_BITS) continue;
    if ((rest & 1) != 0) last[b] = further;
    jump[b] = twice;
  }
  if (b < XORWOW_BITS) out[b] = last[b];
}

/// Bit i of `given`: scalar i is not null; SCALARS: so is dropout.
KERNEL THREADS_PER_BLOCK(THREADS)
    collect(GLOBAL Scalars* out, GLOBAL const float* s0, GLOBAL const float* s1, GLOBAL const float* s2,
            GLOBAL const float* s3, GLOBAL const float* s4, GLOBAL const float* s5, GLOBAL const float* s6,
            GLOBAL const float* s7, GLOBAL const float* s8, GLOBAL const float* s9, GLOBAL const float* s10,
            GLOBAL const float* s11, GLOBAL const float* s12, GLOBAL const float* probability, GLOBAL const u64* seed,
            GLOBAL const u64* offset, const int given) {
  SHARED Numbers jump[XORWOW_BITS];
  SHARED u32 last[XORWOW_BITS];
  const int drops = (given >> SCALARS & 1) != 0 && probability[0] > 0;
  if (THREAD(0) == 0) {
    GLOBAL const float* const scalars[SCALARS] = {s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12};
    for (int i = 0; i < SCALARS; ++i) out->value[i] = (given >> i & 1) != 0 ? scalars[i][0] : 1;
    out->drops = drops;
    out->taken[0] = out->taken[1] = 0;
    if (drops) {
      const float p = probability[0];
      u64 low = 0, high = (u64)1 << 32;
      while (low < high) {
        const u64 middle = (low + high) / 2;
        const float uniform = 0x1p-32f + (float)middle * 0x1p-32f;
        if (uniform >= p)
          high = middle;
        else
          low = middle + 1;
      }
      out->dropout.seed = seed[0];
      out->dropout.offset = offset[0];
      out->dropout.least = (u32)low;
      out->dropout.kept = p < 1 && low >> 32 == 0 ? 1 / (1 - p) : 0;
    }
  }
  if (drops && offset[0] >= ATTENTION_STEPS) set_jump(out->dropout.jump, offset[0], jump, last);
}

/// The largest of `count` magnitudes of each kind, which are contiguous, for the kinds whose bit is set in `given`.
KERNEL THREADS_PER_BLOCK(THREADS) finish(GLOBAL const float* magnitudes, const i64 count, GLOBAL float* first,
                                         GLOBAL float* second, const int given) {
  SHARED float part[THREADS];
  const int kind = BLOCK(0);
  if ((given >> kind & 1) == 0) return;
  float largest = 0;
  for (i64 i = THREAD(0); i < count; i += THREADS) largest = MAX(magnitudes[kind * count + i], largest);
  part[THREAD(0)] = largest;
  for (int step = THREADS / 2; step > 0; step /= 2) {
    BARRIER();
    if (THREAD(0) < step) part[THREAD(0)] = MAX(part[THREAD(0) + step], part[THREAD(0)]);
  }
  if (THREAD(0) == 0) *(kind == 0 ? first : second) = part[0];
}
