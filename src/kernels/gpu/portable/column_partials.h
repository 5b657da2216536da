// The column skeleton in two stages for long columns: `parts` blocks share a column and write their accumulators to the
// workspace, [parts][columns] from part `before` on, which the second kernel combines in order. A negative `before`:
// one block has all of a column and writes its results at once. The including source defines what column.h requires,
// and may define
//   ACCUMULATE(sum, in, index)   accumulate() with the number of the element in its column (accumulate(sum, in))
// Entry points: partial_elements, partial_vectors or partial_across, see plan_column_partials(); then column_finish.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/column_sums.h"

INLINE void put_partial(const Operands* p, const ColumnShape* c, const Formula* f, GLOBAL Accumulator* workspace,
                        int before, int part, i64 column, Accumulator sum) {
  if (before < 0)
    finish_column(p, c, f, column, sum);
  else
    workspace[(before + part) * c->columns + column] = sum;
}

#define PARTIAL(name, unit, aligned)                                                                                 \
  KERNEL THREADS_PER_BLOCK(THREADS) name(FIXED Walk w, OPERAND_PARAMETERS, const ColumnShape c, const Formula f,     \
                                         GLOBAL Accumulator* workspace, const int parts, const int before) {         \
    SHARED Accumulator sums[THREADS];                                                                                \
    const Operands p = OPERAND_VALUES;                                                                               \
    const i64 column = (i64)(BLOCK(0) / parts) * c.together + THREAD(0) % c.together;                                \
    const int part = BLOCK(0) % parts;                                                                               \
    const Accumulator sum = reduce_columns(&p, &w, &c, column, part, parts, sums, unit, aligned);                    \
    if (THREAD(0) < c.together && column < c.columns) put_partial(&p, &c, &f, workspace, before, part, column, sum); \
  }
PARTIAL(partial_elements, 1, 0)
PARTIAL(partial_vectors, VECTOR, 1)

KERNEL THREADS_PER_BLOCK_OF(THREADS, INPUTS == 1 || VECTOR <= 4 ? 2 : 1)
    partial_across(FIXED Walk w, OPERAND_PARAMETERS, const ColumnShape c, const Formula f,
                   GLOBAL Accumulator* workspace, const int parts, const int before) {
  SHARED Accumulator sums[kColumnsAtOnce * THREADS];
  const Operands p = OPERAND_VALUES;
  const i64 column = ((i64)(BLOCK(0) / parts) * c.together + THREAD(0) % c.together) * VECTOR;
  const int part = BLOCK(0) % parts;
  Accumulator sum[VECTOR];
  add_across(&p, &w, &c, column, part, parts, sum);
  UNROLL
  for (int first = 0; first < VECTOR; first += kColumnsAtOnce) {
    if (first > 0) BARRIER();
    combine_rows(&c, sums, sum + first);
    NO_UNROLL
    for (int i = THREAD(0); i < c.together * kColumnsAtOnce; i += THREADS) {
      const i64 at = column_of_result(&c, BLOCK(0) / parts, first, i);
      if (at < c.columns) put_partial(&p, &c, &f, workspace, before, part, at, sums[place_of_result(i)]);
    }
  }
}

/// `lanes` threads share a column, a power of two.
KERNEL THREADS_PER_BLOCK(THREADS) column_finish(FIXED Walk w, OPERAND_PARAMETERS, const ColumnShape c, const Formula f,
                                                GLOBAL Accumulator* workspace, const int parts, const int lanes) {
  SHARED Accumulator sums[THREADS];
  const Operands p = OPERAND_VALUES;
  const int columns = THREADS / lanes, lane = THREAD(0) / columns;
  const i64 column = (i64)BLOCK(0) * columns + THREAD(0) % columns;
  Accumulator sum = start();
  if (column < c.columns && lane < parts) {
    sum = workspace[lane * c.columns + column];
    for (int part = lane + lanes; part < parts; part += lanes) sum = combine(sum, workspace[part * c.columns + column]);
  }
  sums[THREAD(0)] = sum;
  for (int other = lanes / 2; other > 0; other /= 2) {
    BARRIER();
    if (lane < other) sums[THREAD(0)] = combine(sums[THREAD(0)], sums[THREAD(0) + other * columns]);
  }
  if (lane == 0 && column < c.columns) finish_column(&p, &c, &f, column, sums[THREAD(0)]);
}
