// The multi margin loss of each row of x: factor of its class t times the sum over the other classes c of
// max(0, margin - x[t] + x[c])^POWER; 0 if t is no class.
// Options: IN (type of x and the weights), OUT (type of the losses), NUM (arithmetic), POWER (1 or 2).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/walk.h"

#define INPUTS 3  // x, targets, weights
#define OUTPUTS 1
#define MAPPED 0
#define INPUT_TYPE(i) ((i) == 1 ? TYPE_int64 : IN_TYPE)
#define REDUCES(i) ((i) == 0)
#include "kernels/gpu/portable/operands.h"

/// Strides are those of classes, in elements.
typedef struct {
  i64 classes, x_stride, weight_stride;
  scalar margin, scale;
} Formula;

typedef struct {
  num sum, shift, factor;
  int target;  // -1: no class
} Accumulator;

INLINE Accumulator start(void) {
  const Accumulator none = {0, 0, 0, -1};
  return none;
}

#define START_ROW start_row
INLINE Accumulator start_row(const Formula* f, const Operands* p, const i64* at) {
  Accumulator a = start();
  const i64 target = (i64)load_bits(p->in[1], 8, at[1]);
  if (target < 0 || target >= f->classes) return a;
  const int size = SIZE_OF(IN_TYPE);
  a.shift = f->margin - decode(IN_TYPE, load_bits(p->in[0], size, at[0] + target * f->x_stride));
  a.factor = f->scale * decode(IN_TYPE, load_bits(p->in[2], size, at[2] + target * f->weight_stride));
  a.target = (int)target;
  return a;
}

INLINE Accumulator accumulate(Accumulator a, const num* in, int column) {
  const num z = in[0] + a.shift, hinge = z < 0 ? 0 : z;  // NaN stays
  if (column != a.target) a.sum += POWER == 2 ? hinge * hinge : hinge;
  return a;
}

INLINE Accumulator combine(Accumulator a, Accumulator b) {
  a.sum += b.sum;
  return a;
}

INLINE void finish(const Formula* f, GLOBAL u8* const* out, const i64* at, Accumulator a) {
  store_bits(out[0], SIZE_OF(OUT_TYPE), at[0], encode(OUT_TYPE, a.target < 0 ? 0 : a.sum * a.factor));
}

#include "kernels/gpu/portable/row.h"
