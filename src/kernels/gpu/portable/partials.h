// Reduction of the partial results of several blocks, in a fixed order so that results are reproducible.
// SPDX-License-Identifier: MIT
#pragma once

#define PARTIAL_THREADS 256

#ifdef DITHERS_OUT  // as in conv_elements.h
#define SEED_PARAMETER , const u64 seed
#else
#define SEED_PARAMETER
#endif

/// sums[i] = the sum of sums[slot * width + i] over the slots, whose number is a power of two. For all threads of a
/// block, with barriers before and after.
INLINE void add_slots(LOCAL sum_t* sums, int width, int slots) {
  BARRIER();
  for (int other = slots / 2; other > 0; other /= 2) {
    for (int i = THREAD(0); i < other * width; i += PARTIAL_THREADS) sums[i] += sums[i + other * width];
    BARRIER();
  }
}

/// dst = alpha * (sum of the partial results) + beta * dst, for `size` elements of packed tensors. The partial results
/// [splits][size] begin at element `at` of the 16-byte aligned workspace, dst at element `dst_at`. `side`
/// threads share the sum of an element; `side` is a power of two.
KERNEL THREADS_PER_BLOCK(PARTIAL_THREADS)
    add_partials(GLOBAL const sum_t* RESTRICT workspace, GLOBAL out_t* dst, const i64 at, const i64 size,
                 const int splits, const int side, const i64 dst_at, const float alpha,
                 const float beta SEED_PARAMETER) {
  WAIT_FOR_EARLIER_KERNEL();
  SHARED sum_t sums[PARTIAL_THREADS];
  const int lanes = PARTIAL_THREADS / side, first = THREAD(0) / lanes;
  const i64 i = (i64)BLOCK(0) * lanes + THREAD(0) % lanes;
  sum_t sum = 0;
  if (i < size) {
    GLOBAL const sum_t* partials = align16(workspace) + at + i;
    _Pragma("unroll 8") for (int s = first; s < splits; s += side) sum += partials[s * size];
  }
  sums[THREAD(0)] = sum;
  for (int other = side / 2; other > 0; other /= 2) {
    BARRIER();
    if (first < other) sums[THREAD(0)] += sums[THREAD(0) + other * lanes];
  }
#ifdef DITHERS_OUT
  if (first != 0 || i >= size) return;
  const sum_t scaled = alpha * sums[THREAD(0)];
  STORE_OUT(dst, dst_at + i, beta != 0 ? FMA(beta, LOAD(OUT, dst, dst_at + i), scaled) : scaled, seed);
#else
  if (first == 0 && i < size) store_scaled(dst + dst_at + i, sums[THREAD(0)], alpha, beta);
#endif
}
