// Copies 8-bit floats to bf16, which has all their values; stores sums in fp32 as gradients of 8-bit weights. Options:
// IN or OUT, DITHERS_OUT as in conv_elements.h.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/conv_elements.h"

#define THREADS 256

#ifdef IN
#define UNIT 16  // elements of a thread

INLINE u32 widened(u32 code) { return BITS_OF_FLOAT(PASTE(number_, IN)(code & 0xffu)) >> 16; }
INLINE u32 pair(u32 codes) { return widened(codes) | widened(codes >> 8) << 16; }
INLINE u32x4 four_pairs(u32 low, u32 high) {
  u32x4 v;
  v.x = pair(low);
  v.y = pair(low >> 16);
  v.z = pair(high);
  v.w = pair(high >> 16);
  return v;
}

KERNEL THREADS_PER_BLOCK(THREADS) widen(GLOBAL const u8* RESTRICT from, GLOBAL u16* RESTRICT to, const i64 count) {
  const i64 first = ((i64)BLOCK(0) * THREADS + THREAD(0)) * UNIT;
  if (first + UNIT > count) {
    for (i64 i = first; i < count; ++i) to[i] = (u16)widened(from[i]);
    return;
  }
  const u32x4 codes = *(GLOBAL const u32x4*)(from + first);
  ((GLOBAL u32x4*)(to + first))[0] = four_pairs(codes.x, codes.y);
  ((GLOBAL u32x4*)(to + first))[1] = four_pairs(codes.z, codes.w);
}
#else
KERNEL THREADS_PER_BLOCK(THREADS) store_sums(GLOBAL const float* RESTRICT sums, GLOBAL STORED(OUT) * w, const i64 count,
                                             const float alpha, const float beta, const u64 seed) {
  const i64 i = (i64)BLOCK(0) * THREADS + THREAD(0);
  if (i >= count) return;
  float v = alpha * sums[i];
  if (beta != 0) v += beta * (float)LOAD(OUT, w, i);
  STORE_OUT(w, i, v, seed);
}
#endif
