// Kernels of elementwise passes. The including source defines the function: Formula with reads_a, reads_b and fixed,
// reads_c() and value_of(). Options: IN (type of the operands a and b), OUT (type of c).
// SPDX-License-Identifier: MIT
#pragma once

#define THREADS 256

/// `units` units of `unit` elements per thread, THREADS units apart. All loads precede the stores.
INLINE void apply(GLOBAL const u8* a, GLOBAL const u8* b, GLOBAL u8* c, const Walk* w, const Strides* a_at,
                  const Strides* b_at, const Strides* c_at, const Formula* f, const int units, const int unit) {
  num va[4][VECTOR], vb[4][VECTOR], vc[4][VECTOR];
  i64 at[4][3];
  const int first = BLOCK(0) * THREADS * units + THREAD(0);
  UNROLL
  for (int u = 0; u < units; ++u) {
    const int index = first + u * THREADS, n = index == w->count - 1 ? w->last : unit;
    if (index >= w->count) break;
    locate(w, index, a_at, b_at, c_at, at[u]);
    if (f->reads_a) read_unit(a, IN_TYPE, at[u][0], a_at->step, unit, n, va[u]);
    if (f->reads_b) read_unit(b, IN_TYPE, at[u][1], b_at->step, unit, n, vb[u]);
    if (reads_c(f)) read_unit(c, OUT_TYPE, at[u][2], c_at->step, unit, n, vc[u]);
  }
  UNROLL
  for (int u = 0; u < units; ++u) {
    const int index = first + u * THREADS, n = index == w->count - 1 ? w->last : unit;
    if (index >= w->count) break;
    UNROLL
    for (int i = 0; i < unit; ++i) {
      const num x = f->reads_a ? va[u][i] : num_of(f->fixed), y = f->reads_b ? vb[u][i] : num_of(f->fixed);
      vc[u][i] = value_of(f, x, y, vc[u][i]);
    }
    write_unit(c, OUT_TYPE, at[u][2], c_at->step, unit, n, vc[u]);
  }
}

KERNEL THREADS_PER_BLOCK(THREADS)
    elementwise(GLOBAL const u8* a, GLOBAL const u8* b, GLOBAL u8* c, const Walk w, const Strides a_at,
                const Strides b_at, const Strides c_at, const Formula f) {
  apply(a, b, c, &w, &a_at, &b_at, &c_at, &f, 4, 1);
}

KERNEL THREADS_PER_BLOCK(THREADS)
    elementwise_vectors(GLOBAL const u8* a, GLOBAL const u8* b, GLOBAL u8* c, const Walk w, const Strides a_at,
                        const Strides b_at, const Strides c_at, const Formula f) {
  apply(a, b, c, &w, &a_at, &b_at, &c_at, &f, 1, VECTOR);
}
