// The column skeleton in two stages for long columns: `parts` blocks share a column and write their accumulators to the
// workspace, [parts][columns] from part `before` on, which the second kernel combines in order. The including source
// defines what column.h requires, and may define
//   ACCUMULATE(sum, in, index)   accumulate() with the number of the element in its column (accumulate(sum, in))
// Entry points: partial_elements, partial_vectors or partial_across, see plan_column_partials(); then column_finish.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/column_sums.h"

#define PARTIAL(name, unit, aligned)                                                                             \
  KERNEL THREADS_PER_BLOCK(THREADS) name(const Walk w, OPERAND_PARAMETERS, const ColumnShape c, const Formula f, \
                                         GLOBAL Accumulator* workspace, const int parts, const int before) {     \
    SHARED Accumulator sums[THREADS];                                                                            \
    const Operands p = OPERAND_VALUES;                                                                           \
    const i64 column = (i64)(BLOCK(0) / parts) * c.together + THREAD(0) % c.together;                            \
    const int part = BLOCK(0) % parts;                                                                           \
    const Accumulator sum = reduce_columns(&p, &w, &c, column, part, parts, sums, unit, aligned);                \
    if (THREAD(0) < c.together && column < c.columns) workspace[(before + part) * c.columns + column] = sum;     \
  }
PARTIAL(partial_elements, 1, 0)
PARTIAL(partial_vectors, VECTOR, 1)

KERNEL THREADS_PER_BLOCK(THREADS) partial_across(const Walk w, OPERAND_PARAMETERS, const ColumnShape c, const Formula f,
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
    if (THREAD(0) < c.together && column < c.columns)
      for (int j = 0; j < kColumnsAtOnce; ++j)
        workspace[(before + part) * c.columns + column + first + j] = sums[j * THREADS + THREAD(0)];
  }
}

KERNEL THREADS_PER_BLOCK(THREADS) column_finish(const Walk w, OPERAND_PARAMETERS, const ColumnShape c, const Formula f,
                                                GLOBAL Accumulator* workspace, const int parts) {
  const Operands p = OPERAND_VALUES;
  const i64 column = (i64)BLOCK(0) * THREADS + THREAD(0);
  if (column >= c.columns) return;
  Accumulator sum = workspace[column];
  for (int part = 1; part < parts; ++part) sum = combine(sum, workspace[part * c.columns + column]);
  finish_column(&p, &c, &f, column, sum);
}
