// The k-th smallest element of each row, for rows of up to THREADS * KEPT elements. A block has several rows, read into
// local memory in their order there; `lanes` threads have the keys of a row in registers. The result is found bit by
// bit, highest first: the largest key that fewer than k keys are below.
// Options: IN = OUT (type of the elements), NUM=float, KEPT (keys of a thread).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/walk.h"
#include "kernels/gpu/portable/order_key.h"

#define LOG2_THREADS 8
#define THREADS (1 << LOG2_THREADS)
#define AT_ONCE MIN(KEPT, 8)  // loads of a thread that precede their stores

typedef struct {
  i64 step;  // between elements of a row
  Divider length;
  int k;
  int log2_lanes;  // threads per row
  int neighbours;  // whether neighbours in memory are of different rows
} Formula;

typedef u32 Accumulator;
INLINE Accumulator combine(Accumulator a, Accumulator b) { return a + b; }

#include "kernels/gpu/portable/row_combine.h"

KERNEL THREADS_PER_BLOCK(THREADS)
    kthvalue_rows(FIXED Walk w, GLOBAL const u8* x, FIXED Strides x_at, GLOBAL u8* y, FIXED Strides y_at,
                  GLOBAL u8* indices, FIXED Strides indices_at, const Formula f) {
  SHARED bits_t keys[THREADS * (KEPT + 1)];
  SHARED i64 begins[THREADS];
  SHARED u32 sums[2 * THREADS];
  const Strides* const strides[3] = {&x_at, &y_at, &indices_at};
  const int thread = THREAD(0), lanes = 1 << f.log2_lanes, row = thread >> f.log2_lanes, lane = thread & (lanes - 1);
  const int log2_rows = LOG2_THREADS - f.log2_lanes, rows = 1 << log2_rows, first_row = BLOCK(0) << log2_rows;
  const int length = (int)f.length.divisor, pitch = length | 1;  // odd, so that rows begin in different banks
  i64 at[3];
  if (thread < rows) {
    locate(&w, MIN(first_row + thread, w.count - 1), strides, 1, at);
    begins[thread] = at[0];
  }
  BARRIER();
  for (int start = thread; start < rows * length; start += AT_ONCE * THREADS) {
    bits_t key[AT_ONCE];
    int place[AT_ONCE];
    UNROLL
    for (int u = 0; u < AT_ONCE; ++u) {
      const int i = MIN(start + u * THREADS, rows * length - 1);
      const int of = f.neighbours ? i & (rows - 1) : divide(i, f.length);
      const int column = f.neighbours ? i >> log2_rows : i - of * length;
      place[u] = of * pitch + column;
      key[u] = key_at(x, begins[of] + column * f.step);
    }
    UNROLL
    for (int u = 0; u < AT_ONCE; ++u) keys[place[u]] = key[u];
  }
  BARRIER();
  bits_t kept[KEPT], found = 0;
  UNROLL
  for (int j = 0; j < KEPT; ++j) {
    const int column = j * lanes + lane;
    kept[j] = column < length ? keys[row * pitch + column] : (bits_t)((u64)-1 >> (64 - BITS));
  }
  NO_UNROLL
  for (int bit = BITS - 1; bit >= 0; --bit) {
    const bits_t next = found | (bits_t)1 << bit;
    u32 below = 0;
    UNROLL
    for (int j = 0; j < KEPT; ++j) below += kept[j] < next ? 1 : 0;
    // Two arrays, since lanes may still read the sums of the bit before.
    if (combine_lanes(below, sums + bit % 2 * THREADS, lane, lanes, 1) < (u32)f.k) found = next;
  }
  u32 first = (u32)length;
  UNROLL
  for (int j = KEPT - 1; j >= 0; --j) first = kept[j] == found ? (u32)(j * lanes + lane) : first;
  BARRIER();
  sums[thread] = first;
  for (int other = lanes / 2; other > 0; other /= 2) {
    BARRIER();
    if (lane < other) sums[thread] = MIN(sums[thread], sums[thread + other]);
  }
  if (lane == 0 && first_row + row < w.count) {
    locate(&w, first_row + row, strides, 3, at);
    store_bits(y, SIZE_OF(IN_TYPE), at[1], load_bits(x, SIZE_OF(IN_TYPE), at[0] + (i64)sums[thread] * f.step));
    store_bits(indices, 8, at[2], (u64)sums[thread]);
  }
}
