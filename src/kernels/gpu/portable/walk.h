// Iteration over tensors of equal sizes and any strides, in units of neighbours along the innermost dimension. Shared
// with the host.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/divider.h"
#ifndef KERNEL
#include <algorithm>
#include <cstddef>
namespace polymio::kernels {
using i64 = std::int64_t;
#endif

enum { kMaxDims = 9, kMaxOperands = 3 };

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

/// Offsets of the first elements of a unit in the three operands.
INLINE void locate(const Walk* w, int unit, const Strides* a, const Strides* b, const Strides* c, i64* at) {
  at[0] = a->first;
  at[1] = b->first;
  at[2] = c->first;
  UNROLL
  for (int d = 0; d < kMaxDims; ++d) {
    if (d >= w->rank) break;
    const int next = d + 1 == w->rank ? 0 : divide(unit, w->size[d]), i = unit - next * (int)w->size[d].divisor;
    at[0] += i * a->stride[d];
    at[1] += i * b->stride[d];
    at[2] += i * c->stride[d];
    unit = next;
  }
}

#else

/// The iteration space on the host, of any size, slowest dimension first.
struct Nest {
  struct Dim {
    i64 size = 1;
    i64 strides[kMaxOperands] = {};
  };
  Dim dims[kMaxDims];
  int rank = 0;
  int unit = 1, last = 1;  // elements per unit and of the last unit
  i64 first[kMaxOperands] = {}, step[kMaxOperands] = {};

  i64 count() const {
    i64 n = 1;
    for (int d = 0; d < rank; ++d) n *= dims[d].size;
    return n;
  }
  Dim& inner() { return dims[rank - 1]; }
  const Dim& inner() const { return dims[rank - 1]; }

  /// Groups single elements along the innermost dimension into units of `n`.
  void group(int n) {
    const i64 elements = inner().size;
    unit = n;
    last = static_cast<int>(elements - (elements - 1) / n * n);
    inner().size = (elements + n - 1) / n;
    for (int o = 0; o < kMaxOperands; ++o) {
      step[o] = inner().strides[o];
      inner().strides[o] *= n;
    }
  }

  Walk walk() const {
    Walk w{static_cast<int>(count()), rank, last, {}};
    for (int d = 0; d < rank; ++d) w.size[d] = make_divider(dims[rank - 1 - d].size);
    return w;
  }
  Strides strides(int o) const {
    Strides at{first[o], step[o], {}};
    for (int d = 0; d < rank; ++d) at.stride[d] = dims[rank - 1 - d].strides[o];
    return at;
  }
};

/// An operand's memory, null if absent, and its element size in bytes.
struct Side {
  const void* data = nullptr;
  std::size_t size = 1;
  /// The pointer to pass to a kernel: not every driver accepts null.
  const void* data_or(const void* other) const { return data ? data : other; }
};
using Sides = Side[kMaxOperands];

/// Elements per vector, as VECTOR in elements.h; `in` and `out` are element sizes in bytes.
inline int vector_of(std::size_t in, std::size_t out) { return std::min(16 / static_cast<int>(std::min(in, out)), 8); }

/// Whether vectors of `n` elements along a dense dimension are aligned to their bytes, at most 16.
inline bool is_aligned(const Nest& nest, int o, const Side& side, int along, int n) {
  const auto size = static_cast<i64>(side.size);
  auto bits = reinterpret_cast<std::uintptr_t>(side.data) | static_cast<std::uintptr_t>(nest.first[o] * size);
  for (int d = 0; d < nest.rank; ++d)
    if (d != along) bits |= static_cast<std::uintptr_t>(nest.dims[d].strides[o] * size);
  return bits % static_cast<std::uintptr_t>(std::min<i64>(16, n * size)) == 0;
}

/// Whether the innermost dimension of all operands divides into units of `n` contiguous (or, for inputs, repeated)
/// elements; takes_vectors requires aligned units, too.
inline bool has_units(const Nest& nest, const Sides& sides, int n) {
  const Nest::Dim& dim = nest.inner();
  bool dense = dim.size >= n && (nest.rank == 1 || dim.size % n == 0) && dim.strides[kMaxOperands - 1] == 1;
  for (int o = 0; o < kMaxOperands; ++o)
    dense = dense && (!sides[o].data || dim.strides[o] == 0 || dim.strides[o] == 1);
  return dense;
}
inline bool takes_vectors(const Nest& nest, const Sides& sides, int n) {
  bool takes = has_units(nest, sides, n);
  for (int o = 0; o < kMaxOperands; ++o)
    takes =
        takes && (!sides[o].data || nest.inner().strides[o] == 0 || is_aligned(nest, o, sides[o], nest.rank - 1, n));
  return takes;
}

/// Calls body(nest) for parts of at most 2^30 units.
template <class Body>
void each_part(const Nest& nest, const Body& body) {
  constexpr i64 kMax = i64{1} << 30;
  const i64 count = nest.count(), size = nest.dims[0].size, rest = count / std::max<i64>(size, 1);
  if (count <= kMax) return body(nest);
  if (size == 1) {
    Nest smaller = nest;
    std::copy(nest.dims + 1, nest.dims + nest.rank, smaller.dims);
    --smaller.rank;
    return each_part(smaller, body);
  }
  const i64 run = std::max<i64>(1, kMax / rest);
  for (i64 i = 0; i < size; i += run) {
    Nest part = nest;
    part.dims[0].size = std::min(run, size - i);
    if (i + run < size) part.last = part.unit;
    for (int o = 0; o < kMaxOperands; ++o) part.first[o] += i * nest.dims[0].strides[o];
    each_part(part, body);
  }
}

}  // namespace polymio::kernels
#endif
