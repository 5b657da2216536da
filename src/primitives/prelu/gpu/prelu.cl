// The gradient of the input of a parametric ReLU: dx = x > 0 ? dy : weight * dy, for tensors of any strides.
// Options: IN = OUT (type), NUM (arithmetic).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/walk.h"

#define INPUTS 3
#define OUTPUTS 1

typedef struct {
  int unused;
} Formula;

INLINE void compute(const Formula* f, const num* in, num* out) {
  const num x = in[0], weight = in[1], dy = in[2];
  out[0] = x > 0 ? dy : weight * dy;
}

#include "kernels/gpu/portable/map.h"
