// The k-th smallest element of each row; a block has a row. Each pass counts one digit of 4 bits, highest first, of the
// keys that agree in the digits found so far. Every thread has its own counters, so there are no atomics.
// Options: IN = OUT (type of the elements), NUM=float, THREADS (of a block: a power of two from 16 on).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/walk.h"
#include "kernels/gpu/portable/order_key.h"

#define DIGITS 16
typedef struct {
  i64 step;  // between elements of a row
  int length, k;
} Formula;

KERNEL THREADS_PER_BLOCK(THREADS)
    kthvalue(FIXED Walk w, GLOBAL const u8* x, FIXED Strides x_at, GLOBAL u8* y, FIXED Strides y_at, GLOBAL u8* indices,
             FIXED Strides indices_at, const Formula f) {
  SHARED u32 counts[DIGITS * THREADS];
  SHARED u32 sums[THREADS];
  const Strides* const strides[3] = {&x_at, &y_at, &indices_at};
  i64 at[3];
  const int thread = THREAD(0);
  locate(&w, BLOCK(0), strides, 3, at);
  bits_t found = 0, known = 0;  // the digits found, and a mask of them
  u32 k = (u32)f.k, left = (u32)f.length;
  for (int shift = BITS - 4; shift >= 0 && left > 1; shift -= 4) {
    UNROLL
    for (int d = 0; d < DIGITS; ++d) counts[d * THREADS + thread] = 0;
    for (int i = thread; i < f.length; i += THREADS) {
      const bits_t key = key_at(x, at[0] + i * f.step);
      if ((key & known) == found) ++counts[(int)(key >> shift & 15) * THREADS + thread];
    }
    BARRIER();
    u32 sum = 0;  // THREADS / DIGITS threads per digit
    for (int i = 0; i < DIGITS; ++i) sum += counts[thread * DIGITS + i];
    sums[thread] = sum;
    BARRIER();
    bits_t digit = 0;
    for (int d = 0; d < DIGITS; ++d) {
      left = 0;
      for (int i = 0; i < THREADS / DIGITS; ++i) left += sums[d * (THREADS / DIGITS) + i];
      digit = (bits_t)d;
      if (k <= left) break;
      k -= left;
    }
    found |= digit << shift;
    known |= (bits_t)15 << shift;
    BARRIER();
  }
  u32 first = 0xffffffffu;
  for (int i = thread; i < f.length && first == 0xffffffffu; i += THREADS)
    if ((key_at(x, at[0] + i * f.step) & known) == found) first = (u32)i;
  sums[thread] = first;
  for (int other = THREADS / 2; other > 0; other /= 2) {
    BARRIER();
    if (thread < other) sums[thread] = MIN(sums[thread], sums[thread + other]);
  }
  if (thread == 0) {
    store_bits(y, SIZE_OF(IN_TYPE), at[1], load_bits(x, SIZE_OF(IN_TYPE), at[0] + (i64)sums[0] * f.step));
    store_bits(indices, 8, at[2], (u64)sums[0]);
  }
}
