// y = x * scale where the mask, a byte per element, is not 0, else 0. The mask is the first input, the second is x.
// Options: IN = int8, OUT (type of x and y), NUM (arithmetic).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/walk.h"

#define INPUTS 2
#define OUTPUTS 1
#define INPUT_TYPE(i) ((i) == 0 ? TYPE_int8 : OUT_TYPE)

typedef struct {
  scalar scale;
} Formula;

INLINE void compute(const Formula* f, const num* in, num* out) { out[0] = in[0] != 0 ? in[1] * f->scale : 0; }

#include "kernels/gpu/portable/map.h"
