// What a pass over elements computes. The host reads this file, too.
// SPDX-License-Identifier: MIT
#pragma once
#ifndef KERNEL
namespace polymio::kernels {

/// Operands that are not read are `fixed`.
template <class Scalar>
struct Formula {
  Scalar alpha1, alpha2, beta, fixed;
  int function, reads_a, reads_b;
};

}  // namespace polymio::kernels
#else

typedef struct {
  scalar alpha1, alpha2, beta, fixed;
  int function, reads_a, reads_b;
} Formula;

INLINE int keeps(const Formula* f) { return NUMBERS != NUMBERS_bits && f->beta != 0; }

INLINE num value_of(const Formula* f, num a, num b, num old) {
#if NUMBERS == NUMBERS_bits
  return a;
#else
  num v = times(num_of(f->alpha1), a);
  if (f->function < 4) {
    const num w = times(num_of(f->alpha2), b);
    v = f->function == 0   ? plus(v, w)
        : f->function == 1 ? times(v, w)
        : f->function == 2 ? (below(w, v) ? w : v)
                           : (below(v, w) ? w : v);
  }
  return keeps(f) ? plus(v, times(num_of(f->beta), old)) : v;
#endif
}
#endif
