// c = scale * v + keep * c for tensors of any strides, where v is, by PASS: 0 f(a); 1 b f'(a); 2 the same from a =
// f(x); 3 f(a + b); 4 a f(b).
// Options: MODE (f), IN = OUT (type), NUM (arithmetic), PASS.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/walk.h"
#include "kernels/gpu/portable/functions.h"
#include "kernels/gpu/portable/modes.h"

typedef struct {
  scalar alpha, beta, gamma, scale, keep, fixed;
  int reads_a, reads_b;
} Formula;

INLINE int reads_c(const Formula* f) { return f->keep != 0; }

INLINE num value_of(const Formula* f, num a, num b, num old_c) {
  const num alpha = f->alpha, beta = f->beta, gamma = f->gamma;
#if PASS == 0
  const num v = activate(MODE, a, alpha, beta, gamma);
#elif PASS == 1
  const num v = gradient(MODE, a, b, alpha, beta, gamma);
#elif PASS == 2
  const num v = gradient_from_y(MODE, a, b, alpha, beta, gamma);
#elif PASS == 3
  const num v = activate(MODE, a + b, alpha, beta, gamma);
#else
  const num v = a * activate(MODE, b, alpha, beta, gamma);
#endif
  return reads_c(f) ? f->scale * v + f->keep * old_c : f->scale * v;
}

#include "kernels/gpu/portable/visit.h"
