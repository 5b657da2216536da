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
#define LOG2_THREADS 9

#ifndef UNROLL_UNITS
// Units per thread in flight; the including source may define fewer if accumulate() is long.
#define UNROLL_UNITS _Pragma("unroll 4")
#endif

// Columns of a vector whose accumulators are in local memory at the same time: at most 32 KiB.
#define SHARED_COLUMNS (32768 / (THREADS * (int)sizeof(Accumulator)))
enum { kColumnsAtOnce = SHARED_COLUMNS >= VECTOR ? VECTOR : SHARED_COLUMNS >= 4 ? 4 : SHARED_COLUMNS >= 2 ? 2 : 1 };

INLINE i64 column_offset(const ColumnShape* c, i64 column, const int operand) {
  const int vector = c->vector[operand];
  if (vector == 1) return column * c->stride[operand];
  const i64 number = column >> 31 ? column / vector : (int)column / vector;  // the latter is five times as fast
  return number * c->stride[operand] + (column - number * vector);
}

INLINE void finish_column(const Operands* p, const ColumnShape* c, const Formula* f, i64 column, Accumulator sum) {
  i64 at[OUTPUTS];
  UNROLL
  for (int o = 0; o < OUTPUTS; ++o) at[o] = p->at[INPUTS + o]->first + column_offset(c, column, INPUTS + o);
  finish(f, p->out, at, sum);
}

/// Offsets of a unit of the walk in the inputs. `uniform`: units have a constant stride.
INLINE void locate_in_column(const Operands* p, const Walk* w, int unit, const int uniform, i64* at) {
  if (!uniform) {
    locate(w, unit, p->at, INPUTS, at);
    return;
  }
  UNROLL
  for (int k = 0; k < INPUTS; ++k) at[k] = p->at[k]->first + unit * p->at[k]->stride[0];
}

/// Adds the first n of `unit` elements of a column, number `index` and every `step`-th after it.
INLINE Accumulator add_elements_of_column(Accumulator sum, num (*v)[COLUMN_UNIT], const int unit, int n, int index,
                                          int step) {
#ifdef ADD_UNIT
  return ADD_UNIT(sum, v, unit, n, index);
#else
  UNROLL
  for (int j = 0; j < unit; ++j) {
    num in[INPUTS];
    UNROLL
    for (int k = 0; k < INPUTS; ++k) in[k] = v[k][j];
    if (j < n) sum = ACCUMULATE(sum, in, index + j * step);
  }
  return sum;
#endif
}

/// Adds the units of a column whose elements begin at from[], `first` and every `step`-th after it.
INLINE Accumulator add_units_of_column(const Operands* p, const Walk* w, const i64* from, int first, int step,
                                       const int unit, const int aligned, const int uniform) {
  Accumulator sum = start();
  UNROLL_UNITS
  for (int i = first; i < w->count; i += step) {
    num v[INPUTS][COLUMN_UNIT];
    i64 at[INPUTS];
    const int n = i == w->count - 1 ? w->last : unit;
    locate_in_column(p, w, i, uniform, at);
    UNROLL
    for (int k = 0; k < INPUTS; ++k)
      if (aligned)
        read_unit(p->in[k], INPUT_TYPE(k), from[k] + at[k], p->at[k]->step, unit, n, v[k]);
      else
        read_elements(p->in[k], INPUT_TYPE(k), from[k] + at[k], p->at[k]->step, unit, n, v[k]);
    sum = add_elements_of_column(sum, v, unit, n, i * unit, 1);
  }
  return sum;
}

/// Reduces part `part` of `parts` of `together` neighbouring columns, one per lane; the walk iterates over the elements
/// of one column. The thread of a lane in the first row returns its column's accumulator.
INLINE Accumulator reduce_columns(const Operands* p, const Walk* w, const ColumnShape* c, i64 column, int part,
                                  int parts, LOCAL Accumulator* sums, const int unit, const int aligned) {
  const int rows = THREADS / c->together, first = part * rows + THREAD(0) / c->together;
  Accumulator sum = start();
  if (column < c->columns) {
    i64 from[INPUTS];
    UNROLL
    for (int k = 0; k < INPUTS; ++k) from[k] = column_offset(c, column, k);
    if (w->rank == 1)
      sum = add_units_of_column(p, w, from, first, rows * parts, unit, aligned, 1);
    else
      sum = add_units_of_column(p, w, from, first, rows * parts, unit, aligned, 0);
  }
  sums[THREAD(0)] = sum;
  for (int other = THREADS / 2; other >= c->together; other /= 2) {
    BARRIER();
    if (THREAD(0) < other) sums[THREAD(0)] = combine(sums[THREAD(0)], sums[THREAD(0) + other]);
  }
  return sums[THREAD(0)];
}

/// Adds every `step`-th element from `first` on to VECTOR columns, PIXELS at a time, which stay as they are in memory
/// until they are added: 16-bit elements then take half the registers. `n`: VECTOR, or more if vectors are not aligned:
/// read_packed then accesses every element.
INLINE void add_strided_pixels(const Operands* p, const Walk* w, const i64* column_at, int n, int first, int step,
                               const int uniform, Accumulator* sum) {
  for (int i = first; i < w->count; i += step * PIXELS) {
    u32 packed[PIXELS][INPUTS][16];
    num equal[PIXELS][INPUTS];
    int pixels = 0;
    UNROLL
    for (int k = 0; k < PIXELS; ++k) {
      i64 at[INPUTS];
      pixels += i + k * step < w->count;
      locate_in_column(p, w, MIN(i + k * step, w->count - 1), uniform, at);
      UNROLL
      for (int o = 0; o < INPUTS; ++o)
        if (EQUAL_ACROSS(o))
          equal[k][o] = decode(INPUT_TYPE(o), load_bits(p->in[o], SIZE_OF(INPUT_TYPE(o)), column_at[o] + at[o]));
        else
          read_packed(p->in[o], INPUT_TYPE(o), column_at[o] + at[o], 1, VECTOR, n, packed[k][o]);
    }
    UNROLL
    for (int j = 0; j < VECTOR; ++j) {
      num v[INPUTS][COLUMN_UNIT];
      UNROLL
      for (int k = 0; k < PIXELS; ++k) {
        UNROLL
        for (int o = 0; o < INPUTS; ++o)
          v[o][k] = EQUAL_ACROSS(o) ? equal[k][o]
                                    : decode(INPUT_TYPE(o), unpack_bits(packed[k][o], SIZE_OF(INPUT_TYPE(o)), j));
      }
      sum[j] = add_elements_of_column(sum[j], v, PIXELS, pixels, i, step);
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
  if (w->rank == 1 && n == VECTOR)
    add_strided_pixels(p, w, column_at, VECTOR, first, step, 1, sum);
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

/// Combines the rows of a block for `kColumnsAtOnce` columns of each vector, all threads in every step.
INLINE void combine_rows(const ColumnShape* c, LOCAL Accumulator* sums, const Accumulator* sum) {
  UNROLL
  for (int j = 0; j < kColumnsAtOnce; ++j) sums[j * THREADS + THREAD(0)] = sum[j];
  NO_UNROLL
  for (int log2_other = LOG2_THREADS - 1; 1 << log2_other >= c->together; --log2_other) {
    const int other = 1 << log2_other;
    BARRIER();
    NO_UNROLL
    for (int i = THREAD(0); i < other * kColumnsAtOnce; i += THREADS) {
      const int at = (i >> log2_other) * THREADS + (i & (other - 1));
      sums[at] = combine(sums[at], sums[at + other]);
    }
  }
  BARRIER();
}

/// Where combine_rows() leaves the accumulator of result i of together * kColumnsAtOnce, and its column, in group
/// `group` of columns and from `first` on in each vector.
INLINE int place_of_result(int i) { return i % kColumnsAtOnce * THREADS + i / kColumnsAtOnce; }
INLINE i64 column_of_result(const ColumnShape* c, int group, int first, int i) {
  return ((i64)group * c->together + i / kColumnsAtOnce) * VECTOR + first + i % kColumnsAtOnce;
}
