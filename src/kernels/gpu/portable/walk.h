// Iteration over tensors of equal sizes and any strides, in units of neighbours along the innermost dimension. Shared
// with the host, which makes them from a Nest (kernels/gpu/nest.h).
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/divider.h"
#ifndef KERNEL
namespace polymio::kernels {
using i64 = std::int64_t;
#endif

enum { kMaxDims = 9 };

/// Extents of the iteration space in units, fastest dimension first. The last unit has `last` elements.
typedef struct Walk {
  int count, rank, last;
  Divider size[kMaxDims];
} Walk;

/// Element strides of a tensor: offset of the first element, step within a unit, stride of units per dimension.
typedef struct Strides {
  i64 first, step, stride[kMaxDims];
} Strides;

#ifdef KERNEL

/// Offsets of the first elements of a unit in `operands` tensors.
INLINE void locate(const Walk* w, int unit, const Strides* const* at, const int operands, i64* offset) {
  UNROLL
  for (int o = 0; o < operands; ++o) offset[o] = at[o]->first;
  NO_UNROLL
  for (int d = 0; d < w->rank; ++d) {
    const int next = d + 1 == w->rank ? 0 : divide(unit, w->size[d]);
    const int i = unit - next * (int)w->size[d].divisor;
    UNROLL
    for (int o = 0; o < operands; ++o) offset[o] += i * at[o]->stride[d];
    unit = next;
  }
}

#else
}  // namespace polymio::kernels
#endif
