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

/// Adds to the offsets where `index` is in dimension d, the last one or not, and returns what is left of it.
INLINE int add_offset_along(const Walk* w, int d, int is_last, int index, const Strides* const* at, const int operands,
                            i64* offset) {
  const int next = is_last ? 0 : divide(index, w->size[d]);
  const int i = index - next * (int)w->size[d].divisor;
  UNROLL
  for (int o = 0; o < operands; ++o) offset[o] += i * at[o]->stride[d];
  return next;
}

/// Adds to the offsets where `index` is in the first `rank` dimensions. More than three are a loop: unrolled, the code
/// of kernels that locate several units would not fit the cache of instructions.
INLINE void add_offsets(const Walk* w, int rank, int index, const Strides* const* at, const int operands, i64* offset) {
  UNROLL
  for (int d = 0; d < 3; ++d)
    if (d < rank) index = add_offset_along(w, d, d + 1 == rank, index, at, operands, offset);
  NO_UNROLL
  for (int d = 3; d < rank; ++d) index = add_offset_along(w, d, d + 1 == rank, index, at, operands, offset);
}

/// Offsets of the first elements of a unit in `operands` tensors.
INLINE void locate(const Walk* w, int unit, const Strides* const* at, const int operands, i64* offset) {
  UNROLL
  for (int o = 0; o < operands; ++o) offset[o] = at[o]->first;
  add_offsets(w, w->rank, unit, at, operands, offset);
}

#else
}  // namespace polymio::kernels
#endif
