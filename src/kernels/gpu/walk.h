// How threads visit the elements of tensors of equal sizes and any strides: in units of neighbours along the innermost
// dimension. The host reads this file, too.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/divider.h"
#ifndef KERNEL
#include <algorithm>
#include <cstddef>
namespace polymio::kernels {
using i64 = std::int64_t;
#endif

enum { kMostDims = 9, kMostOperands = 3 };

/// Units in the order of their numbers: the dimension that varies fastest comes first. The last unit may be short.
typedef struct Walk {
  int count, rank, last;
  Divider size[kMostDims];
} Walk;

/// Where a tensor's elements lie: the first one, distances of units along each dimension and of elements in a unit.
typedef struct Strides {
  i64 first, step, stride[kMostDims];
} Strides;

#ifdef KERNEL

/// Offsets of the first elements of a unit.
INLINE void locate(const Walk* w, int unit, const Strides* a, const Strides* b, const Strides* c, i64* at) {
  at[0] = a->first, at[1] = b->first, at[2] = c->first;
  UNROLL
  for (int d = 0; d < kMostDims; ++d) {
    if (d >= w->rank) break;
    const int next = d + 1 == w->rank ? 0 : divide(unit, w->size[d]), i = unit - next * (int)w->size[d].divisor;
    at[0] += i * a->stride[d], at[1] += i * b->stride[d], at[2] += i * c->stride[d];
    unit = next;
  }
}

#else

/// The same on the host, of any size: slowest dimension first.
struct Nest {
  struct Dim {
    i64 size = 1;
    i64 strides[kMostOperands] = {};
  };
  Dim dims[kMostDims];
  int rank = 0;
  int unit = 1, last = 1;  // elements of a unit, and of the last one
  i64 first[kMostOperands] = {}, step[kMostOperands] = {};

  i64 count() const {
    i64 n = 1;
    for (int d = 0; d < rank; ++d) n *= dims[d].size;
    return n;
  }
  Dim& inner() { return dims[rank - 1]; }
  const Dim& inner() const { return dims[rank - 1]; }

  /// From single elements to units of `n`.
  void group(int n) {
    const i64 elements = inner().size;
    unit = n, last = static_cast<int>(elements - (elements - 1) / n * n);
    inner().size = (elements + n - 1) / n;
    for (int o = 0; o < kMostOperands; ++o) step[o] = inner().strides[o], inner().strides[o] *= n;
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

/// An operand's memory, null if it is not there, and the size of its elements.
struct Side {
  const void* data = nullptr;
  std::size_t size = 1;
  /// For an argument, which not every driver lets be null.
  const void* data_or(const void* other) const { return data ? data : other; }
};
using Sides = Side[kMostOperands];

/// As kernels do: elements that a thread takes together.
inline int vector_of(std::size_t in, std::size_t out) { return std::min(16 / static_cast<int>(std::min(in, out)), 8); }

/// Whether runs of `n` elements along a dimension, where the operand is dense, begin at multiples of their bytes or
/// of 16.
inline bool is_aligned(const Nest& nest, int o, const Side& side, int along, int n) {
  const auto size = static_cast<i64>(side.size);
  auto bits = reinterpret_cast<std::uintptr_t>(side.data) | static_cast<std::uintptr_t>(nest.first[o] * size);
  for (int d = 0; d < nest.rank; ++d)
    if (d != along) bits |= static_cast<std::uintptr_t>(nest.dims[d].strides[o] * size);
  return bits % static_cast<std::uintptr_t>(std::min<i64>(16, n * size)) == 0;
}

/// Whether units of `n` elements make up the rows of all operands, of which the last one is written; and whether they
/// are aligned, too.
inline bool has_units(const Nest& nest, const Sides& sides, int n) {
  const Nest::Dim& dim = nest.inner();
  bool dense = dim.size >= n && (nest.rank == 1 || dim.size % n == 0) && dim.strides[kMostOperands - 1] == 1;
  for (int o = 0; o < kMostOperands; ++o)
    dense = dense && (!sides[o].data || dim.strides[o] == 0 || dim.strides[o] == 1);
  return dense;
}
inline bool takes_vectors(const Nest& nest, const Sides& sides, int n) {
  bool takes = has_units(nest, sides, n);
  for (int o = 0; o < kMostOperands; ++o)
    takes =
        takes && (!sides[o].data || nest.inner().strides[o] == 0 || is_aligned(nest, o, sides[o], nest.rank - 1, n));
  return takes;
}

/// Calls body(nest) for parts that kernels can count.
template <class Body>
void each_part(const Nest& nest, const Body& body) {
  constexpr i64 kMost = i64{1} << 30;
  const i64 count = nest.count(), size = nest.dims[0].size, rest = count / std::max<i64>(size, 1);
  if (count <= kMost) return body(nest);
  if (size == 1) {
    Nest smaller = nest;
    std::copy(nest.dims + 1, nest.dims + nest.rank, smaller.dims);
    --smaller.rank;
    return each_part(smaller, body);
  }
  const i64 run = std::max<i64>(1, kMost / rest);
  for (i64 i = 0; i < size; i += run) {
    Nest part = nest;
    part.dims[0].size = std::min(run, size - i);
    if (i + run < size) part.last = part.unit;
    for (int o = 0; o < kMostOperands; ++o) part.first[o] += i * nest.dims[0].strides[o];
    each_part(part, body);
  }
}

}  // namespace polymio::kernels
#endif
