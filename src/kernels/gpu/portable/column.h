// Column: reduces all elements of each column (usually a channel) of up to 4 tensors to one accumulator, always in the
// same order. An accumulator is a number or a struct of k of them. One block or cluster reduces a column, so there is
// no workspace; column_partials.h has the same in two stages. The host side is primitives/common/gpu.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/column_sums.h"

// The including source includes portable.h, elements.h and walk.h and defines
//   INPUTS, OUTPUTS      how many tensors there are: 1 to 4 and 1 to 3; data types see operands.h
//   Formula              a struct of parameters
//   Accumulator          a type of a multiple of 4 bytes
//   Accumulator start(void)                              of no elements
//   Accumulator accumulate(Accumulator, const num* in)   adds an element of each input
//   Accumulator combine(Accumulator, Accumulator)        of two sets of elements
//   void finish(const Formula*, GLOBAL u8* const* out, const i64* at, Accumulator)
//                        writes the results of a column: element at[o] of output o
// and may define
//   ADD_UNIT(a, v, unit, n, index)
//                        accumulate() of the first n elements v[input][0..unit) at once, COLUMN_UNIT of each at most
//                        and one at least; `index` is the number of the first in its column
//   EQUAL_ACROSS(i)      whether input i has one element for all columns, so its stride between columns is 0 (0)
//   ANY_ALIGNMENT        sums of columns that are neighbours have one order, whatever the addresses of tensors are
// Entry points, chosen by plan_column(): column_elements, column_units, column_vectors, column_across,
// column_across_clusters, column_planes.

#define MAX_CLUSTER 8                                                 // blocks launched per group of columns
#define FEW_SUMS (INPUTS == 1 && VECTOR * sizeof(Accumulator) <= 16)  // per thread: registers for more blocks
#define MANY_SUMS (VECTOR * sizeof(Accumulator) > 32)

/// Blocks per cluster share the sums of the same columns through distributed shared memory.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && NUMBERS == NUMBERS_float
#define CLUSTER 8
#define IN_CLUSTERS __cluster_dims__(CLUSTER, 1, 1)
#define CLUSTER_BARRIER() asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory")
INLINE Accumulator cluster_value(LOCAL const Accumulator* sum, int block) {
  union {
    Accumulator value;
    u32 units[sizeof(Accumulator) / 4];
  } v;
  const u32 at = (u32)__cvta_generic_to_shared(sum);
  UNROLL
  for (u32 i = 0; i < sizeof(Accumulator) / 4; ++i)
    asm volatile("{.reg .u32 a; mapa.shared::cluster.u32 a, %1, %2; ld.shared::cluster.u32 %0, [a];}"
                 : "=r"(v.units[i])
                 : "r"(at + 4 * i), "r"(block)
                 : "memory");
  return v.value;
}
#else
#define CLUSTER 1
#define IN_CLUSTERS
#define CLUSTER_BARRIER()
INLINE Accumulator cluster_value(LOCAL const Accumulator* sum, int block) { return *sum; }
#endif

#define COLUMN(name, unit, aligned)                                                                                \
  KERNEL THREADS_PER_BLOCK(THREADS) name(FIXED Walk w, OPERAND_PARAMETERS, const ColumnShape c, const Formula f) { \
    SHARED Accumulator sums[THREADS];                                                                              \
    const Operands p = OPERAND_VALUES;                                                                             \
    const i64 column = (i64)BLOCK(0) * c.together + THREAD(0) % c.together;                                        \
    const Accumulator sum = reduce_columns(&p, &w, &c, column, 0, 1, sums, unit, aligned);                         \
    if (THREAD(0) < c.together && column < c.columns) finish_column(&p, &c, &f, column, sum);                      \
  }
COLUMN(column_elements, 1, 0)
COLUMN(column_units, VECTOR, 0)
COLUMN(column_vectors, VECTOR, 1)

/// Columns are neighbours (NHWC): VECTOR columns per thread, `together` vectors of columns per block.
KERNEL THREADS_PER_BLOCK_OF(THREADS, FEW_SUMS    ? 4
                                     : MANY_SUMS ? 1
                                                 : 2)
    column_across(FIXED Walk w, OPERAND_PARAMETERS, const ColumnShape c, const Formula f) {
  SHARED Accumulator sums[kColumnsAtOnce * THREADS];
  const Operands p = OPERAND_VALUES;
  const i64 column = ((i64)BLOCK(0) * c.together + THREAD(0) % c.together) * VECTOR;
  Accumulator sum[VECTOR];
  add_across(&p, &w, &c, column, 0, 1, sum);
  UNROLL
  for (int first = 0; first < VECTOR; first += kColumnsAtOnce) {
    if (first > 0) BARRIER();
    combine_rows(&c, sums, sum + first);
    NO_UNROLL
    for (int i = THREAD(0); i < c.together * kColumnsAtOnce; i += THREADS) {
      const i64 at = column_of_result(&c, BLOCK(0), first, i);
      if (at < c.columns) finish_column(&p, &c, &f, at, sums[place_of_result(i)]);
    }
  }
}

/// The same for long columns, whose elements the blocks of a cluster share.
KERNEL THREADS_PER_BLOCK_OF(THREADS, FEW_SUMS    ? 4
                                     : MANY_SUMS ? 1
                                                 : 2) IN_CLUSTERS
    column_across_clusters(FIXED Walk w, OPERAND_PARAMETERS, const ColumnShape c, const Formula f) {
  SHARED Accumulator sums[kColumnsAtOnce * THREADS];
  const Operands p = OPERAND_VALUES;
  const int part = BLOCK(0) % MAX_CLUSTER;
  const i64 column = ((i64)(BLOCK(0) / MAX_CLUSTER) * c.together + THREAD(0) % c.together) * VECTOR;
  if (part >= CLUSTER) return;
  Accumulator sum[VECTOR];
  add_across(&p, &w, &c, column, part, CLUSTER, sum);
  UNROLL
  for (int first = 0; first < VECTOR; first += kColumnsAtOnce) {
    if (first > 0) BARRIER();
    combine_rows(&c, sums, sum + first);
    CLUSTER_BARRIER();
    NO_UNROLL
    for (int i = THREAD(0); i < c.together * kColumnsAtOnce && part == 0; i += THREADS) {
      const i64 at = column_of_result(&c, BLOCK(0) / MAX_CLUSTER, first, i);
      if (at >= c.columns) continue;
      Accumulator all = sums[place_of_result(i)];
      UNROLL
      for (int b = 1; b < CLUSTER; ++b) all = combine(all, cluster_value(sums + place_of_result(i), b));
      finish_column(&p, &c, &f, at, all);
    }
    CLUSTER_BARRIER();
  }
}

/// Columns have contiguous planes (NCHW) of `together` neighbouring columns; each thread sums one of `vectors` vectors
/// of these planes, in which a second plane may begin, over images. Larger planes are cut into parts that count as
/// images. `parts` blocks share the images; `parts` is a power of two up to MAX_CLUSTER.
KERNEL THREADS_PER_BLOCK_OF(THREADS, FEW_SUMS    ? 3
                                     : MANY_SUMS ? 1
                                                 : 2) IN_CLUSTERS
    column_planes(FIXED Walk w, OPERAND_PARAMETERS, const ColumnShape c, const Formula f, const int vectors,
                  const int parts) {
  SHARED Accumulator first[THREADS];
  SHARED Accumulator second[THREADS];
  const Operands p = OPERAND_VALUES;
  const int cluster = MIN(parts, CLUSTER), part = BLOCK(0) % parts, row = THREAD(0) / vectors, rows = THREADS / vectors;
  const int plane = vectors * VECTOR / c.together, at = THREAD(0) % vectors * VECTOR, left = plane - at % plane;
  const i64 column = (i64)(BLOCK(0) / parts) * c.together;
  if (part >= cluster || column >= c.columns) return;
  Accumulator sum[VECTOR], a = start(), b = start();
  i64 column_at[INPUTS];
  UNROLL
  for (int k = 0; k < INPUTS; ++k) column_at[k] = column * c.stride[k] + at;
  UNROLL
  for (int j = 0; j < VECTOR; ++j) sum[j] = start();
  if (row < rows) add_pixels(&p, &w, &c, column_at, part * rows + row, rows * cluster, sum);
  UNROLL
  for (int j = 0; j < VECTOR; ++j)
    if (j < left)
      a = combine(a, sum[j]);
    else
      b = combine(b, sum[j]);
  first[THREAD(0)] = a;
  second[THREAD(0)] = b;
  int half_rows = 1;
  while (2 * half_rows < rows) half_rows *= 2;
  for (int other = half_rows; other > 0; other /= 2) {
    BARRIER();
    const int with = THREAD(0) + other * vectors;
    if (row < other && row + other < rows) {
      first[THREAD(0)] = combine(first[THREAD(0)], first[with]);
      second[THREAD(0)] = combine(second[THREAD(0)], second[with]);
    }
  }
  BARRIER();
  const int lanes = THREADS / c.together, column_of_block = THREAD(0) / lanes, lane = THREAD(0) % lanes;
  Accumulator total = start();
  for (int v = column_of_block * plane / VECTOR + lane; v * VECTOR < (column_of_block + 1) * plane; v += lanes)
    total = combine(total, v * VECTOR < column_of_block * plane ? second[v] : first[v]);
  BARRIER();
  first[THREAD(0)] = total;
  for (int other = lanes / 2; other > 0; other /= 2) {
    BARRIER();
    if (lane < other) first[THREAD(0)] = combine(first[THREAD(0)], first[THREAD(0) + other]);
  }
  CLUSTER_BARRIER();
  if (part == 0 && lane == 0) {
    Accumulator all = first[THREAD(0)];
    for (int k = 1; k < cluster; ++k) all = combine(all, cluster_value(first + THREAD(0), BLOCK(0) % MAX_CLUSTER + k));
    finish_column(&p, &c, &f, column + column_of_block, all);
  }
  CLUSTER_BARRIER();
}
