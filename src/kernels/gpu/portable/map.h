// Map: outputs = compute(inputs), element by element, for tensors of any strides; stride 0 broadcasts an input. Rows
// that divide into aligned vectors are accessed 16 bytes at a time. The host side is primitives/common/gpu.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/operands.h"

// The including source includes portable.h, elements.h and walk.h and defines
//   INPUTS, OUTPUTS      how many tensors there are: up to 6 and 1 to 5; data types see operands.h
//   Formula              a struct of parameters
//   void compute(const Formula* f, const num* in, num* out)
//                        computes one element; out[o] is the old value where READS_OUTPUT says so: see blend()
// and may define
//   GROUP                how many neighbours along the innermost dimension compute() takes at once (1), a power of two
//                        that divides its size; element j of input i is in[i * GROUP + j], and so for out
//   READS(f, i)          whether input i is read (1); in[i] is undefined otherwise
//   READS_OUTPUT(f, o)   whether the old value of output o is read (0)
//   FORMULA_PARAMETERS, FORMULA_VALUE
//                        parameters of the kernels and the statement that makes the Formula f of them, for one that
//                        depends on device memory (const Formula f, nothing)
// Entry points, chosen by plan_map(): map_elements, map_vectors, map_rows.

#define THREADS 128
#define ELEMENTS_PER_THREAD 4  // of map_elements
#ifndef GROUP
#define GROUP 1
#endif
#ifndef READS
#define READS(f, i) 1
#endif
#ifndef READS_OUTPUT
#define READS_OUTPUT(f, o) 0
#endif
#ifndef FORMULA_PARAMETERS
#define FORMULA_PARAMETERS const Formula f
#define FORMULA_VALUE
#endif

INLINE void read_operand(GLOBAL const u8* p, const int type, i64 at, i64 step, const int unit, const int aligned, int n,
                         num* v) {
  if (aligned)
    read_unit(p, type, at, step, unit, n, v);
  else
    read_elements(p, type, at, step, unit, n, v);
}

/// Whether a unit of an input can be read in whole accesses.
INLINE int is_whole(GLOBAL const u8* p, const int type, i64 at, i64 step, const int unit) {
  return step != 1 || (u64)(p + at * SIZE_OF(type)) % MIN(unit * SIZE_OF(type), 16) == 0;
}

/// A unit of every operand that is read, in whole accesses where `aligned` says that this suits outputs and some
/// inputs.
INLINE void read_operands(const Operands* p, const Formula* f, const i64* at, const int unit, const int aligned, int n,
                          num (*v)[VECTOR]) {
  UNROLL
  for (int i = 0; i < INPUTS; ++i)
    if (READS(f, i))
      read_operand(p->in[i], INPUT_TYPE(i), at[i], p->at[i]->step, unit,
                   aligned && is_whole(p->in[i], INPUT_TYPE(i), at[i], p->at[i]->step, unit), n, v[i]);
  UNROLL
  for (int o = 0; o < OUTPUTS; ++o)
    if (READS_OUTPUT(f, o))
      read_operand(p->out[o], OUTPUT_TYPE(o), at[INPUTS + o], p->at[INPUTS + o]->step, unit, aligned, n, v[INPUTS + o]);
}

INLINE void compute_unit(const Formula* f, const int unit, num (*v)[VECTOR]) {
  UNROLL
  for (int i = 0; i < unit; i += GROUP) {
    num in[MAX(INPUTS, 1) * GROUP];
    num out[OUTPUTS * GROUP];
    UNROLL
    for (int k = 0; k < INPUTS * GROUP; ++k) in[k] = v[k / GROUP][i + k % GROUP];
    UNROLL
    for (int o = 0; o < OUTPUTS * GROUP; ++o) out[o] = v[INPUTS + o / GROUP][i + o % GROUP];
    compute(f, in, out);
    UNROLL
    for (int o = 0; o < OUTPUTS * GROUP; ++o) v[INPUTS + o / GROUP][i + o % GROUP] = out[o];
  }
}

INLINE void write_outputs(const Operands* p, const i64* at, const int unit, const int aligned, int n,
                          num (*v)[VECTOR]) {
  const int whole = aligned ? unit : 1;
  UNROLL
  for (int o = 0; o < OUTPUTS; ++o) {
    const i64 step = p->at[INPUTS + o]->step;
    UNROLL
    for (int i = 0; i < unit; i += whole)
      if (i < n)
        write_unit(p->out[o], OUTPUT_TYPE(o), at[INPUTS + o] + i * step, step, whole, MIN(n - i, whole),
                   v[INPUTS + o] + i);
  }
}

/// `units` units of `unit` elements per thread, THREADS units apart. All loads precede the stores.
INLINE void map_units(const Operands* p, const Walk* w, const Formula* f, const int units, const int unit,
                      const int aligned) {
  num v[ELEMENTS_PER_THREAD][OPERANDS][VECTOR];
  i64 at[ELEMENTS_PER_THREAD][OPERANDS];
  const int first = BLOCK(0) * THREADS * units + THREAD(0);
  UNROLL
  for (int u = 0; u < units; ++u) {
    const int index = first + u * THREADS;
    const int n = index == w->count - 1 ? w->last : unit;
    if (index >= w->count) break;
    locate(w, index, p->at, OPERANDS, at[u]);
    read_operands(p, f, at[u], unit, aligned, n, v[u]);
  }
  UNROLL
  for (int u = 0; u < units; ++u) {
    const int index = first + u * THREADS;
    const int n = index == w->count - 1 ? w->last : unit;
    if (index >= w->count) break;
    compute_unit(f, unit, v[u]);
    write_outputs(p, at[u], unit, aligned, n, v[u]);
  }
}

KERNEL THREADS_PER_BLOCK(THREADS) map_elements(FIXED Walk w, OPERAND_PARAMETERS, FORMULA_PARAMETERS) {
  const Operands p = OPERAND_VALUES;
  FORMULA_VALUE;
  map_units(&p, &w, &f, ELEMENTS_PER_THREAD, GROUP, 0);
}

KERNEL THREADS_PER_BLOCK(THREADS) map_vectors(FIXED Walk w, OPERAND_PARAMETERS, FORMULA_PARAMETERS) {
  const Operands p = OPERAND_VALUES;
  FORMULA_VALUE;
  map_units(&p, &w, &f, 1, VECTOR, 1);
}

/// Vectors of contiguous tensors; inputs of step 0 are constant along each row. A vector spans at most two rows.
KERNEL THREADS_PER_BLOCK(THREADS) map_rows(FIXED Walk w, OPERAND_PARAMETERS, FORMULA_PARAMETERS) {
  const Operands p = OPERAND_VALUES;
  FORMULA_VALUE;
  const int first = (BLOCK(0) * THREADS + THREAD(0)) * VECTOR;
  const int n = MIN(VECTOR, w.count - first);
  if (n <= 0) return;
  const int row = (int)w.size[0].divisor;
  const int left = row - (first - divide(first, w.size[0]) * row);
  num v[OPERANDS][VECTOR];
  i64 at[2][OPERANDS];
  locate(&w, first, p.at, OPERANDS, at[0]);
  locate(&w, MIN(first + left, w.count - 1), p.at, OPERANDS, at[1]);
  num next[MAX(INPUTS, 1)];
  UNROLL
  for (int k = 0; k < INPUTS; ++k)
    if (READS(&f, k) && p.at[k]->step == 0)
      next[k] = decode(INPUT_TYPE(k), load_bits(p.in[k], SIZE_OF(INPUT_TYPE(k)), at[1][k]));
  read_operands(&p, &f, at[0], VECTOR, 1, n, v);
  UNROLL
  for (int i = 0; i < VECTOR; ++i) {
    UNROLL
    for (int k = 0; k < INPUTS; ++k)
      if (READS(&f, k) && p.at[k]->step == 0 && i >= left) v[k][i] = next[k];
  }
  compute_unit(&f, VECTOR, v);
  write_outputs(&p, at[0], VECTOR, 1, n, v);
}
