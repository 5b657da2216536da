// c = f(a, b) + beta * c for tensors of any strides, and copies.
// Options: IN (type of a and b), OUT (type of c), NUM (arithmetic).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/walk.h"
#include "kernels/gpu/portable/formula.h"

#define INPUTS 2
#define OUTPUTS 1
#define READS(f, i) ((i) == 0 ? (f)->reads_a : (f)->reads_b)
#define READS_OUTPUT(f, o) reads_c(f)

INLINE void compute(const Formula* f, const num* in, num* out) {
  const num a = f->reads_a ? in[0] : num_of(f->fixed);
  const num b = f->reads_b ? in[1] : num_of(f->fixed);
  out[0] = value_of(f, a, b, out[0]);
}

#include "kernels/gpu/portable/map.h"
