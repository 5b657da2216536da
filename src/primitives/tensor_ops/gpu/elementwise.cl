// c = f(a, b) + beta * c for tensors of any strides, and copies.
// Options: IN (type of a and b), OUT (type of c), NUM (arithmetic).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/walk.h"
#include "kernels/gpu/portable/formula.h"
#include "kernels/gpu/portable/visit.h"

/// Vectors of contiguous a and c, where b is constant along each row: a vector spans at most two rows.
KERNEL THREADS_PER_BLOCK(THREADS)
    elementwise_rows(GLOBAL const u8* a, GLOBAL const u8* b, GLOBAL u8* c, const Walk w, const Strides a_at,
                     const Strides b_at, const Strides c_at, const Formula f) {
  const int first = (BLOCK(0) * THREADS + THREAD(0)) * VECTOR, n = MIN(VECTOR, w.count - first);
  if (n <= 0) return;
  const int row = (int)w.size[0].divisor, left = row - (first - divide(first, w.size[0]) * row);
  num va[VECTOR], vb[2], vc[VECTOR];
  i64 at[2][3];
  UNROLL
  for (int k = 0; k < 2; ++k) {
    locate(&w, MIN(first + k * left, w.count - 1), &a_at, &b_at, &c_at, at[k]);
    vb[k] = decode(IN_TYPE, load_bits(b, SIZE_OF(IN_TYPE), at[k][1]));
  }
  if (f.reads_a) read_unit(a, IN_TYPE, at[0][0], 1, VECTOR, n, va);
  if (reads_c(&f)) read_unit(c, OUT_TYPE, at[0][2], 1, VECTOR, n, vc);
  UNROLL
  for (int i = 0; i < VECTOR; ++i)
    vc[i] = value_of(&f, f.reads_a ? va[i] : num_of(f.fixed), vb[i < left ? 0 : 1], vc[i]);
  write_unit(c, OUT_TYPE, at[0][2], 1, VECTOR, n, vc);
}
