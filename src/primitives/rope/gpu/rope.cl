// Rotary position embeddings of pairs of neighbours; BACKWARD: the transposed operation, see primitives/rope/rope.h.
// Options: IN = OUT (type), NUM (arithmetic), BACKWARD (0 or 1).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/walk.h"

#define INPUTS 3
#define OUTPUTS 1
#define GROUP 2

typedef struct {
  int unused;
} Formula;

INLINE void compute(const Formula* f, const num* in, num* out) {
  const num *x = in, *cosine = in + 2, *sine = in + 4;
#if BACKWARD
  out[0] = x[0] * cosine[0] + x[1] * sine[1];
  out[1] = x[1] * cosine[1] - x[0] * sine[0];
#else
  out[0] = x[0] * cosine[0] - x[1] * sine[0];
  out[1] = x[1] * cosine[1] + x[0] * sine[1];
#endif
}

#include "kernels/gpu/portable/map.h"
