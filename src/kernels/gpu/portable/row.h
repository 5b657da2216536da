// Row: reduces each row of up to 4 tensors to an accumulator, then computes outputs from it and the row: elements of
// rows (softmax, normalization), results of rows (sums, argmax) or both. Threads of a subgroup, a block or several
// blocks share a row. The host side is primitives/common/gpu.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/operands.h"
#include "kernels/gpu/portable/row_shape.h"

// The including source includes portable.h, elements.h and walk.h and defines
//   INPUTS, OUTPUTS      how many tensors there are: 1 to 4 and 1 to 3; data types see operands.h
//   MAPPED               the first outputs that have a row's elements; the others have one element per row
//   Formula              a struct of parameters
//   Accumulator          a type of a multiple of 4 bytes
//   Accumulator start(void)                                          of no elements
//   Accumulator accumulate(Accumulator, const num* in, int column)   adds an element of each input
//   Accumulator combine(Accumulator, Accumulator)                    of two sets of elements
//   void apply(const Formula*, Accumulator, const num* in, num* out)
//                        computes an element of the mapped outputs; out[o] is the old value where READS_OUTPUT says so
//   void finish(const Formula*, GLOBAL u8* const* out, const i64* at, Accumulator)
//                        writes the results of a row: element at[o] of output o, for o from MAPPED on
// and may define
//   START_ROW(f, p, at)  start() of the row whose elements begin at at[i] of operand i; results of a row, outputs from
//                        MAPPED on, may hold parameters of it instead (start())
//   REDUCES(i)           whether accumulate() uses input i (1); in[i] is undefined there otherwise
//   READS_OUTPUT(f, o)   whether the old value of output o is read (0)
//   ADD_UNIT(a, v, unit, n, column)
//                        accumulate() of the first n elements v[input][0..unit) at once; n is at most unit
//   REDUCED(a)           what a thread's accumulator becomes before it is combined with others (a)
//   PREPARED(f, a)       what a row's accumulator becomes before apply() and finish() (a)
//   WHOLE_ROWS           no entry points for several blocks per row
//   THREADS              threads per block (256)
// Entry points, chosen by plan_row(): row_elements, row_vectors; for several blocks per row partial_row_elements,
// partial_row_vectors, which write accumulators to the workspace, [rows][parts], then apply_row_elements,
// apply_row_vectors.

#ifndef THREADS
#define THREADS 256  // per block
#endif
#define KEPT_UNITS 4  // of a plain row, that a thread keeps in registers between the reduction and apply()
#define MORE_UNITS (MAPPED == 0 && INPUTS == 1 ? 4 : 2)  // of other rows, that a thread has in flight
#define PACKED 16                                        // most 32-bit units of a unit of an input
// Whether plain rows have code of their own, a third of the general one. Compilers for CPUs take long for barriers in
// two branches.
#ifdef __OPENCL_VERSION__
#define SPLITS_PLAIN 0
#else
#define SPLITS_PLAIN 1
#endif
#ifndef START_ROW
#define START_ROW(f, p, at) start()
#endif
#ifndef REDUCES
#define REDUCES(i) 1
#endif
#ifndef READS_OUTPUT
#define READS_OUTPUT(f, o) 0
#endif
#ifndef REDUCED
#define REDUCED(a) (a)
#endif
#ifndef PREPARED
#define PREPARED(f, a) (a)
#endif

/// A thread's share of a row: units `lane`, `lane + lanes`, ... of the row whose elements begin at `at`. `plain` is
/// RowShape::plain, a constant where SPLITS_PLAIN.
typedef struct {
  int row, lane, lanes, plain;
  i64 at[OPERANDS];
} RowPart;

INLINE RowPart part_of_row(const Operands* p, const Walk* w, int row, int lane, int lanes, const RowShape* s,
                           const int plain) {
  RowPart part = {row, lane, lanes, plain};
  UNROLL
  for (int o = 0; o < OPERANDS; ++o) part.at[o] = p->at[o]->first;
  int index = MIN(row, s->rows - 1);
  NO_UNROLL
  for (int d = s->column_rank; d < w->rank; ++d)
    index = add_offset_along(w, d, d + 1 == w->rank, index, p->at, OPERANDS, part.at);
  return part;
}

/// Offsets of a row's unit and its number of elements; more than `unit` if vectors are not aligned: read_unit and
/// write_unit then access every element of it.
INLINE int locate_unit(const Operands* p, const Walk* w, const RowShape* s, const RowPart* part, int index,
                       const int unit, i64* at) {
  UNROLL
  for (int o = 0; o < OPERANDS; ++o) at[o] = part->at[o];
  if (part->plain) {
    UNROLL
    for (int o = 0; o < INPUTS + MAPPED; ++o) at[o] += index * (unit > 1 ? (i64)unit : p->at[o]->stride[0]);
    return unit;
  }
  add_offsets(w, s->column_rank, index, p->at, OPERANDS, at);
  const int n = index == s->columns - 1 ? w->last : unit;
  return s->aligned || n < unit ? n : unit + 1;
}

/// The distance of a unit's elements.
INLINE i64 step_of(const Operands* p, const RowPart* part, int operand) {
  return part->plain ? 1 : p->at[operand]->step;
}

INLINE Accumulator add_unit(Accumulator sum, int column, const int unit, int n, num (*v)[VECTOR]) {
#ifdef ADD_UNIT
  return ADD_UNIT(sum, v, unit, n, column);
#else
  UNROLL
  for (int j = 0; j < unit; ++j) {
    num in[INPUTS];
    UNROLL
    for (int k = 0; k < INPUTS; ++k) in[k] = v[k][j];
    if (j < n) sum = accumulate(sum, in, column + j);
  }
  return sum;
#endif
}

/// Reads `units` units of the inputs that accumulate() uses: `first` and every `lanes`-th after it. They stay as they
/// are in memory, where 16-bit elements take half the registers.
INLINE void read_units(const Operands* p, const Walk* w, const RowShape* s, const RowPart* part, int first,
                       const int units, const int unit, u32 (*packed)[INPUTS][PACKED]) {
  i64 at[OPERANDS];
  UNROLL
  for (int u = 0; u < units; ++u) {
    const int index = first + u * part->lanes;
    if (index >= s->columns) break;
    const int n = locate_unit(p, w, s, part, index, unit, at);
    UNROLL
    for (int k = 0; k < INPUTS; ++k)
      if (REDUCES(k)) read_packed(p->in[k], INPUT_TYPE(k), at[k], step_of(p, part, k), unit, n, packed[u][k]);
  }
}

INLINE void unpack(u32 (*packed)[PACKED], const int unit, num (*v)[VECTOR]) {
  UNROLL
  for (int k = 0; k < INPUTS; ++k) {
    UNROLL
    for (int j = 0; j < unit; ++j)
      if (REDUCES(k)) v[k][j] = decode(INPUT_TYPE(k), unpack_bits(packed[k], SIZE_OF(INPUT_TYPE(k)), j));
  }
}

INLINE Accumulator add_units(Accumulator sum, const Walk* w, const RowShape* s, const RowPart* part, int first,
                             const int units, const int unit, u32 (*packed)[INPUTS][PACKED]) {
  UNROLL
  for (int u = 0; u < units; ++u) {
    num v[INPUTS][VECTOR];
    const int index = first + u * part->lanes;
    if (index >= s->columns) break;
    unpack(packed[u], unit, v);
    sum = add_unit(sum, index * unit, unit, !part->plain && index == s->columns - 1 ? w->last : unit, v);
  }
  return sum;
}

/// Reduces a thread's share; the first KEPT_UNITS units of plain rows stay in `kept`, for mapped outputs.
INLINE Accumulator reduce_part(const Operands* p, const Walk* w, const RowShape* s, const Formula* f,
                               const RowPart* part, const int unit, u32 (*kept)[INPUTS][PACKED]) {
  if (part->row >= s->rows) return start();
  Accumulator sum = START_ROW(f, p, part->at);
  int i = part->lane;
  if (MAPPED > 0 && part->plain) {
    read_units(p, w, s, part, i, KEPT_UNITS, unit, kept);
    sum = add_units(sum, w, s, part, i, KEPT_UNITS, unit, kept);
    i += KEPT_UNITS * part->lanes;
  }
  for (; i < s->columns; i += MORE_UNITS * part->lanes) {
    u32 more[MORE_UNITS][INPUTS][PACKED];
    read_units(p, w, s, part, i, MORE_UNITS, unit, more);
    sum = add_units(sum, w, s, part, i, MORE_UNITS, unit, more);
  }
  return REDUCED(sum);
}

#if MAPPED > 0
/// Writes the mapped outputs of these units.
INLINE void apply_units(const Operands* p, const Walk* w, const RowShape* s, const Formula* f, const RowPart* part,
                        Accumulator sum, int first, const int units, const int unit, u32 (*packed)[INPUTS][PACKED]) {
  i64 at[OPERANDS];
  UNROLL
  for (int u = 0; u < units; ++u) {
    num v[INPUTS][VECTOR];
    num result[MAPPED][VECTOR];
    const int index = first + u * part->lanes;
    if (index >= s->columns) break;
    const int n = locate_unit(p, w, s, part, index, unit, at);
    unpack(packed[u], unit, v);
    UNROLL
    for (int k = 0; k < INPUTS; ++k)
      if (!REDUCES(k)) read_unit(p->in[k], INPUT_TYPE(k), at[k], step_of(p, part, k), unit, n, v[k]);
    UNROLL
    for (int o = 0; o < MAPPED; ++o)
      if (READS_OUTPUT(f, o))
        read_unit(p->out[o], OUTPUT_TYPE(o), at[INPUTS + o], step_of(p, part, INPUTS + o), unit, n, result[o]);
    UNROLL
    for (int j = 0; j < unit; ++j) {
      num in[INPUTS];
      num out[MAPPED];
      UNROLL
      for (int k = 0; k < INPUTS; ++k) in[k] = v[k][j];
      UNROLL
      for (int o = 0; o < MAPPED; ++o) out[o] = result[o][j];
      apply(f, sum, in, out);
      UNROLL
      for (int o = 0; o < MAPPED; ++o) result[o][j] = out[o];
    }
    UNROLL
    for (int o = 0; o < MAPPED; ++o)
      write_unit(p->out[o], OUTPUT_TYPE(o), at[INPUTS + o], step_of(p, part, INPUTS + o), unit, n, result[o]);
  }
}
#endif

/// Writes a thread's share of the outputs. `is_kept`: whether the first units of plain rows are in `kept`.
INLINE void apply_part(const Operands* p, const Walk* w, const RowShape* s, const Formula* f, const RowPart* part,
                       Accumulator sum, const int unit, u32 (*kept)[INPUTS][PACKED], const int is_kept) {
  if (part->row >= s->rows) return;
#if MAPPED > 0
  int i = part->lane;
  if (is_kept && part->plain) {
    apply_units(p, w, s, f, part, sum, i, KEPT_UNITS, unit, kept);
    i += KEPT_UNITS * part->lanes;
  }
  for (; i < s->columns; i += MORE_UNITS * part->lanes) {
    u32 more[MORE_UNITS][INPUTS][PACKED];
    read_units(p, w, s, part, i, MORE_UNITS, unit, more);
    apply_units(p, w, s, f, part, sum, i, MORE_UNITS, unit, more);
  }
#endif
  if (part->lane == 0) finish(f, p->out, part->at + INPUTS, sum);
}

#include "kernels/gpu/portable/row_combine.h"

INLINE void run_rows(const Operands* p, const Walk* w, const RowShape* s, const Formula* f, LOCAL Accumulator* sums,
                     const int unit, const int plain) {
  u32 kept[KEPT_UNITS][INPUTS][PACKED];
  const int rows = THREADS / s->lanes;
  const int lane = s->neighbours ? THREAD(0) / rows : THREAD(0) % s->lanes;
  const int row = BLOCK(0) * rows + (s->neighbours ? THREAD(0) % rows : THREAD(0) / s->lanes);
  const RowPart part = part_of_row(p, w, row, lane, s->lanes, s, plain);
  const Accumulator own = reduce_part(p, w, s, f, &part, unit, kept);
  const Accumulator sum = combine_lanes(own, sums, lane, s->lanes, s->neighbours ? rows : 1);
  apply_part(p, w, s, f, &part, PREPARED(f, sum), unit, kept, 1);
}

#define ROW(name, unit)                                                                                         \
  KERNEL THREADS_PER_BLOCK(THREADS) name(FIXED Walk w, OPERAND_PARAMETERS, const RowShape s, const Formula f) { \
    SHARED Accumulator sums[THREADS];                                                                           \
    const Operands p = OPERAND_VALUES;                                                                          \
    if (SPLITS_PLAIN && s.plain)                                                                                \
      run_rows(&p, &w, &s, &f, sums, unit, 1);                                                                  \
    else                                                                                                        \
      run_rows(&p, &w, &s, &f, sums, unit, SPLITS_PLAIN ? 0 : s.plain);                                         \
  }
ROW(row_elements, 1)
ROW(row_vectors, VECTOR)

#ifndef WHOLE_ROWS
INLINE void run_partial_rows(const Operands* p, const Walk* w, const RowShape* s, const Formula* f,
                             GLOBAL Accumulator* workspace, LOCAL Accumulator* sums, const int unit, const int plain) {
  u32 kept[KEPT_UNITS][INPUTS][PACKED];
  const int lane = BLOCK(0) % s->parts * THREADS + THREAD(0);
  const RowPart part = part_of_row(p, w, BLOCK(0) / s->parts, lane, s->parts * THREADS, s, plain);
  const Accumulator own = reduce_part(p, w, s, f, &part, unit, kept);
  const Accumulator sum = combine_lanes(own, sums, THREAD(0), THREADS, 1);
  if (THREAD(0) == 0) workspace[BLOCK(0)] = sum;
}

INLINE void apply_to_rows(const Operands* p, const Walk* w, const RowShape* s, const Formula* f,
                          GLOBAL const Accumulator* workspace, LOCAL Accumulator* sums, const int unit,
                          const int plain) {
  u32 kept[KEPT_UNITS][INPUTS][PACKED];
  const int row = BLOCK(0) / s->parts;
  const int lane = BLOCK(0) % s->parts * THREADS + THREAD(0);
  const RowPart part = part_of_row(p, w, row, lane, s->parts * THREADS, s, plain);
  Accumulator own = start();
  if (THREAD(0) < s->parts) own = workspace[row * s->parts + THREAD(0)];
  const Accumulator sum = combine_lanes(own, sums, THREAD(0), THREADS, 1);
  apply_part(p, w, s, f, &part, PREPARED(f, sum), unit, kept, 0);
}

#define ROW_STAGE(name, unit, stage)                                                                             \
  KERNEL THREADS_PER_BLOCK(THREADS)                                                                              \
      name(FIXED Walk w, OPERAND_PARAMETERS, const RowShape s, const Formula f, GLOBAL Accumulator* workspace) { \
    SHARED Accumulator sums[THREADS];                                                                            \
    const Operands p = OPERAND_VALUES;                                                                           \
    if (SPLITS_PLAIN && s.plain)                                                                                 \
      stage(&p, &w, &s, &f, workspace, sums, unit, 1);                                                           \
    else                                                                                                         \
      stage(&p, &w, &s, &f, workspace, sums, unit, SPLITS_PLAIN ? 0 : s.plain);                                  \
  }
ROW_STAGE(partial_row_elements, 1, run_partial_rows)
ROW_STAGE(partial_row_vectors, VECTOR, run_partial_rows)
ROW_STAGE(apply_row_elements, 1, apply_to_rows)
ROW_STAGE(apply_row_vectors, VECTOR, apply_to_rows)
#endif
