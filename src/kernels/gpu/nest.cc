// SPDX-License-Identifier: MIT
#include "kernels/gpu/nest.h"

namespace polymio::kernels {
namespace {

std::uintptr_t bytes_of(i64 elements, const Side& side) {
  return static_cast<std::uintptr_t>(elements * static_cast<i64>(side.size));
}

}  // namespace

void Nest::group(int n) {
  const i64 elements = inner().size;
  unit = n;
  last = static_cast<int>(elements - (elements - 1) / n * n);
  inner().size = ceil_div(elements, n);
  for (std::size_t o = 0; o < static_cast<std::size_t>(operands); ++o) {
    step[o] = inner().strides[o];
    inner().strides[o] *= n;
  }
}

Walk Nest::walk() const {
  Walk w{static_cast<int>(count()), rank, last, {}};
  for (int d = 0; d < rank; ++d) w.size[d] = make_divider(dim(rank - 1 - d).size);
  return w;
}

Strides Nest::strides(int operand) const {
  const auto o = static_cast<std::size_t>(operand);
  Strides at{first[o], step[o], {}};
  for (int d = 0; d < rank; ++d) at.stride[d] = dim(rank - 1 - d).strides[o];
  return at;
}

bool is_aligned(const Nest& nest, int operand, const Side& side, int along, int n) {
  const auto o = static_cast<std::size_t>(operand);
  auto bits = reinterpret_cast<std::uintptr_t>(side.data) | bytes_of(nest.first[o], side);
  for (int d = 0; d < nest.rank; ++d)
    if (d != along && nest.dim(d).size > 1) bits |= bytes_of(nest.dim(d).strides[o], side);
  return bits % std::min<std::uintptr_t>(16, bytes_of(n, side)) == 0;
}

bool is_flat(const Nest& nest, int operand, const Side& side) {
  const auto o = static_cast<std::size_t>(operand);
  i64 expected = 1;
  for (int d = nest.rank - 1; d >= 0; --d) {
    if (nest.dim(d).strides[o] != expected) return false;
    expected *= nest.dim(d).size;
  }
  return (reinterpret_cast<std::uintptr_t>(side.data) + bytes_of(nest.first[o], side)) % 16 == 0;
}

bool has_units(const Nest& nest, const Sides& sides, int n) {
  const Nest::Dim& inner = nest.inner();
  if (inner.size < n || (nest.rank > 1 && inner.size % n != 0)) return false;
  for (int operand = 0; operand < nest.operands; ++operand) {
    const auto o = static_cast<std::size_t>(operand);
    const bool repeated = operand < nest.inputs && inner.strides[o] == 0;
    if (sides[o].data && inner.strides[o] != 1 && !repeated) return false;
  }
  return true;
}

bool takes_vectors(const Nest& nest, const Sides& sides, int n) {
  if (!has_units(nest, sides, n)) return false;
  for (int operand = 0; operand < nest.operands; ++operand) {
    const auto o = static_cast<std::size_t>(operand);
    if (sides[o].data && nest.inner().strides[o] != 0 && !is_aligned(nest, operand, sides[o], nest.rank - 1, n))
      return false;
  }
  return true;
}

}  // namespace polymio::kernels
