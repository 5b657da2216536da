// The iteration space of a GPU kernel on the host, and what its kernels may assume: units, vectors, alignment.
// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/math.h"
#include "kernels/gpu/portable/walk.h"

namespace polymio::kernels {

inline constexpr int kMaxOperands = 10;             // up to 5 inputs and 5 outputs
inline constexpr i64 kMaxPartUnits = i64{1} << 30;  // units that a kernel counts in an int, with room for a last block

/// Dimensions slowest first, of any size. Operands are the inputs, then the outputs.
struct Nest {
  struct Dim {
    i64 size = 1;
    std::array<i64, kMaxOperands> strides{};
  };
  std::array<Dim, kMaxDims> dims{};
  int rank = 0;
  int inputs = 0, operands = 0;
  int unit = 1, last = 1;  // elements per unit and of the last unit
  std::array<i64, kMaxOperands> first{}, step{};

  i64 count() const {
    i64 n = 1;
    for (int d = 0; d < rank; ++d) n *= dims[static_cast<std::size_t>(d)].size;
    return n;
  }
  Dim& dim(int d) { return dims[static_cast<std::size_t>(d)]; }
  const Dim& dim(int d) const { return dims[static_cast<std::size_t>(d)]; }
  Dim& inner() { return dim(rank - 1); }
  const Dim& inner() const { return dim(rank - 1); }

  /// Groups single elements along the innermost dimension into units of `n`.
  void group(int n);
  Walk walk() const;
  Strides strides(int operand) const;
};

/// An operand's memory, null if absent, and its element size in bytes.
struct Side {
  const void* data = nullptr;
  std::size_t size = 1;
};
using Sides = std::array<Side, kMaxOperands>;

/// Elements per vector, as VECTOR in elements.h; `in` and `out` are element sizes in bytes.
inline int vector_of(std::size_t in, std::size_t out) { return std::min(16 / static_cast<int>(std::min(in, out)), 8); }

/// Whether vectors of `n` elements along a dense dimension are aligned to their bytes, at most 16.
bool is_aligned(const Nest& nest, int operand, const Side& side, int along, int n);

/// Whether an operand is contiguous over all dimensions and its first element is aligned to 16 bytes.
bool is_flat(const Nest& nest, int operand, const Side& side);

/// Whether the innermost dimension of all operands divides into units of `n` contiguous (or, for inputs, repeated)
/// elements; takes_vectors requires aligned units, too.
bool has_units(const Nest& nest, const Sides& sides, int n);
bool takes_vectors(const Nest& nest, const Sides& sides, int n);

/// Calls body(nest) for parts of at most kMaxPartUnits units.
template <class Body>
void each_part(const Nest& nest, const Body& body) {
  const i64 count = nest.count();
  const i64 size = nest.dims[0].size;
  const i64 rest = count / std::max<i64>(size, 1);
  if (count <= kMaxPartUnits) return body(nest);
  if (size == 1) {
    Nest smaller = nest;
    std::copy(nest.dims.begin() + 1, nest.dims.begin() + nest.rank, smaller.dims.begin());
    --smaller.rank;
    return each_part(smaller, body);
  }
  const i64 run = std::max<i64>(1, kMaxPartUnits / rest);
  for (i64 i = 0; i < size; i += run) {
    Nest part = nest;
    part.dims[0].size = std::min(run, size - i);
    if (i + run < size) part.last = part.unit;
    for (std::size_t o = 0; o < static_cast<std::size_t>(nest.operands); ++o)
      part.first[o] += i * nest.dims[0].strides[o];
    each_part(part, body);
  }
}

}  // namespace polymio::kernels
