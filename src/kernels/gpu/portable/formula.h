// The function of an elementwise pass over up to two inputs. Shared with the host.
// SPDX-License-Identifier: MIT
#pragma once
#ifndef KERNEL
namespace polymio::kernels {

/// c = function(alpha1 * a, alpha2 * b) + beta * c; operands that are not read have the value `fixed`.
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

INLINE int reads_c(const Formula* f) { return NUMBERS != NUMBERS_bits && f->beta != 0; }

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
  return reads_c(f) ? plus(v, times(num_of(f->beta), old)) : v;
#endif
}
#endif
