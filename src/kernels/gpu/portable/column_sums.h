// What column.h and column_partials.h share: the sums of a block. See column.h.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/column_shape.h"
#include "kernels/gpu/portable/operands.h"

#ifndef ACCUMULATE
#define ACCUMULATE(sum, in, index) accumulate(sum, in)
#endif
#ifndef EQUAL_ACROSS
#define EQUAL_ACROSS(i) 0
#endif
#define THREADS 512
#define PIXELS 4  // elements per thread in flight

#ifndef UNROLL_UNITS
// Units per thread in flight; the including source may define fewer if accumulate() is long.
#define UNROLL_UNITS _Pragma("unroll 4")
#endif

// Columns of a vector whose accumulators are in local memory at the same time: at most 32 KiB.
#define SHARED_COLUMNS (32768 / (THREADS * (int)sizeof(Accumulator)))
enum { kColumnsAtOnce = SHARED_COLUMNS >= VECTOR ? VECTOR : SHARED_COLUMNS >= 4 ? 4 : SHARED_COLUMNS >= 2 ? 2 : 1 };

INLINE i64 column_offset(const ColumnShape* c, i64 column, const int operand) {
  return column / c->vector[operand] * c->stride[operand] + column % c->vector[operand];
}

INLINE void finish_column(const Operands* p, const ColumnShape* c, const Formula* f, i64 column, Accumulator sum) {
  i64 at[OUTPUTS];
  UNROLL
  for (int o = 0; o < OUTPUTS; ++o) at[o] = p->at[INPUTS + o]->first + column_offset(c, column, INPUTS + o);
  finish(f, p->out, at, sum);
}

/// Adds element j of a unit, number `index` of its column.
INLINE Accumulator add_element(Accumulator sum, num (*v)[VECTOR], const int j, int index) {
  num in[INPUTS];
  UNROLL
  for (int k = 0; k < INPUTS; ++k) in[k] = v[k][j];
  return ACCUMULATE(sum, in, index);
}

/// Reduces part `part` of `parts` of `together` neighbouring columns, one per lane; the walk iterates over the elements
/// of one column. The thread of a lane in the first row returns its column's accumulator.
INLINE Accumulator reduce_columns(const Operands* p, const Walk* w, const ColumnShape* c, i64 column, int part,
                                  int parts, LOCAL Accumulator* sums, const int unit, const int aligned) {
  const int row = THREAD(0) / c->together;
  const int rows = THREADS / c->together;
  Accumulator sum = start();
  if (column < c->columns) {
    i64 from[INPUTS];
    UNROLL
    for (int k = 0; k < INPUTS; ++k) from[k] = column_offset(c, column, k);
    UNROLL_UNITS
    for (int i = part * rows + row; i < w->count; i += rows * parts) {
      num v[INPUTS][VECTOR];
      i64 at[INPUTS];
      const int n = i == w->count - 1 ? w->last : unit;
      locate(w, i, p->at, INPUTS, at);
      UNROLL
      for (int k = 0; k < INPUTS; ++k)
        if (aligned)
          read_unit(p->in[k], INPUT_TYPE(k), from[k] + at[k], p->at[k]->step, unit, n, v[k]);
        else
          read_elements(p->in[k], INPUT_TYPE(k), from[k] + at[k], p->at[k]->step, unit, n, v[k]);
      UNROLL
      for (int j = 0; j < unit; ++j)
        if (j < n) sum = add_element(sum, v, j, i * unit + j);
    }
  }
  sums[THREAD(0)] = sum;
  UNROLL
  for (int other = THREADS / 2; other > 0; other /= 2) {
    BARRIER();
    if (other >= c->together && THREAD(0) < other) sums[THREAD(0)] = combine(sums[THREAD(0)], sums[THREAD(0) + other]);
  }
  return sums[THREAD(0)];
}

/// Adds every `step`-th element from `first` on to VECTOR columns, PIXELS at a time, which stay as they are in memory
/// until they are added: 16-bit elements then take half the registers. `uniform`: elements have a constant stride.
/// `n`: VECTOR, or more if vectors are not aligned: read_packed then accesses every element.
INLINE void add_strided_pixels(const Operands* p, const Walk* w, const i64* column_at, int n, int first, int step,
                               const int uniform, Accumulator* sum) {
  for (int i = first; i < w->count; i += step * PIXELS) {
    u32 packed[PIXELS][INPUTS][16];
    num equal[PIXELS][INPUTS];
    UNROLL
    for (int k = 0; k < PIXELS; ++k) {
      i64 at[INPUTS];
      const int pixel = MIN(i + k * step, w->count - 1);
      if (uniform) {
        UNROLL
        for (int o = 0; o < INPUTS; ++o) at[o] = p->at[o]->first + pixel * p->at[o]->stride[0];
      } else {
        locate(w, pixel, p->at, INPUTS, at);
      }
      UNROLL
      for (int o = 0; o < INPUTS; ++o)
        if (EQUAL_ACROSS(o))
          equal[k][o] = decode(INPUT_TYPE(o), load_bits(p->in[o], SIZE_OF(INPUT_TYPE(o)), column_at[o] + at[o]));
        else
          read_packed(p->in[o], INPUT_TYPE(o), column_at[o] + at[o], 1, VECTOR, n, packed[k][o]);
    }
    UNROLL
    for (int k = 0; k < PIXELS; ++k) {
      if (i + k * step >= w->count) continue;
      UNROLL
      for (int j = 0; j < VECTOR; ++j) {
        num in[INPUTS];
        UNROLL
        for (int o = 0; o < INPUTS; ++o)
          in[o] = EQUAL_ACROSS(o) ? equal[k][o]
                                  : decode(INPUT_TYPE(o), unpack_bits(packed[k][o], SIZE_OF(INPUT_TYPE(o)), j));
        sum[j] = ACCUMULATE(sum[j], in, i + k * step);
      }
    }
  }
}

INLINE void add_pixels(const Operands* p, const Walk* w, const ColumnShape* c, const i64* column_at, int first,
                       int step, Accumulator* sum) {
#ifdef ANY_ALIGNMENT
  const int n = c->aligned ? VECTOR : VECTOR + 1;
#else
  const int n = VECTOR;
#endif
  if (w->rank == 1)
    add_strided_pixels(p, w, column_at, n, first, step, 1, sum);
  else
    add_strided_pixels(p, w, column_at, n, first, step, 0, sum);
}

/// VECTOR columns per thread from `column` on, whose elements are neighbours: part `part` of `parts`.
INLINE void add_across(const Operands* p, const Walk* w, const ColumnShape* c, i64 column, int part, int parts,
                       Accumulator* sum) {
  const int rows = THREADS / c->together;
  i64 column_at[INPUTS];
  UNROLL
  for (int k = 0; k < INPUTS; ++k) column_at[k] = EQUAL_ACROSS(k) ? 0 : column_offset(c, column, k);
  UNROLL
  for (int j = 0; j < VECTOR; ++j) sum[j] = start();
  if (column < c->columns) add_pixels(p, w, c, column_at, part * rows + THREAD(0) / c->together, rows * parts, sum);
}

/// Combines the rows of a block for `kColumnsAtOnce` columns; the first `together` threads have the results.
INLINE void combine_rows(const ColumnShape* c, LOCAL Accumulator* sums, const Accumulator* sum) {
  UNROLL
  for (int j = 0; j < kColumnsAtOnce; ++j) sums[j * THREADS + THREAD(0)] = sum[j];
  for (int other = THREADS / 2; other >= c->together; other /= 2) {
    BARRIER();
    if (THREAD(0) < other) {
      UNROLL
      for (int j = 0; j < kColumnsAtOnce; ++j)
        sums[j * THREADS + THREAD(0)] = combine(sums[j * THREADS + THREAD(0)], sums[j * THREADS + THREAD(0) + other]);
    }
  }
}
