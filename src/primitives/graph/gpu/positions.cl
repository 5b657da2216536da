// Tensors whose elements follow from their positions: indices along an axis, and random numbers. Of these element e, in
// row-major order of the sizes, takes number e mod 4 of the counter e / 4; a normal one takes the numbers of a counter
// of its own. Options: OUT (type), NUM (float, or double for types that need it).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/elements.h"
#include "kernels/gpu/portable/functions.h"
#include "kernels/gpu/portable/elementary.h"
#include "kernels/gpu/portable/philox.h"

typedef struct {
  i64 size[8], stride[8];  // fastest dimension first
} Shape;

INLINE i64 offset_of(const Shape* shape, int rank, i64 element) {
  i64 at = 0;
  for (int i = 0; i < rank; ++i) {
    at += element % shape->size[i] * shape->stride[i];
    element /= shape->size[i];
  }
  return at;
}

typedef struct {
  i64 count, step, size;  // step: elements from one index to the next, in row-major order
  int rank;
} Axis;

KERNEL THREADS_PER_BLOCK(256) element_indices(GLOBAL u8* y, const Shape shape, const Axis a) {
  const i64 e = (i64)BLOCK(0) * 256 + THREAD(0);
  if (e >= a.count) return;
  store_bits(y, SIZE_OF(OUT_TYPE), offset_of(&shape, a.rank, e), encode(OUT_TYPE, (num)(e / a.step % a.size)));
}

typedef struct {
  i64 count, seed;
  float first, second;
  int rank, distribution, has_seed;
} Draw;

KERNEL THREADS_PER_BLOCK(256)
    random_elements(GLOBAL u8* y, const Shape shape, const Draw d, GLOBAL const i64* offset, GLOBAL const i64* seed) {
  const i64 e = (i64)BLOCK(0) * 256 + THREAD(0);
  if (e >= d.count) return;
  u32 v[4];
  num value;
  const u64 key = (u64)(d.has_seed ? seed[0] : d.seed), from = (u64)offset[0];
  if (d.distribution == 2) {
    philox(key, (u64)e, from, v);
    const num angle = (num)6.28318530717958647693 * philox_unit(v[1]);
    value = d.first + d.second * sqrt_of(-2 * log_of(philox_unit(v[0]))) * cos_of(angle);
  } else {
    philox(key, (u64)(e / 4), from, v);
    const int k = (int)(e % 4);
    const float u = philox_unit(k == 0 ? v[0] : k == 1 ? v[1] : k == 2 ? v[2] : v[3]);
    value = d.distribution == 0 ? (u < d.first ? 1.0f : 0.0f) : d.first + (d.second - d.first) * u;
  }
  store_bits(y, SIZE_OF(OUT_TYPE), offset_of(&shape, d.rank, e), encode(OUT_TYPE, value));
}
