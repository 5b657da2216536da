// What each kind of device does: numbers of places, sorted, and sums of rows of dy.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>

#include "core/loop.h"
#include "primitives/getitem/getitem.h"

namespace polymio::getitem {

/// Numbers a space of several dimensions in row-major order, with the strides of a tensor in it.
struct Space {
  std::array<std::int64_t, kMaxRank> size{}, stride{};
  int rank = 0;

  void push(std::int64_t dim_size, std::int64_t dim_stride) {
    size[static_cast<std::size_t>(rank)] = dim_size;
    stride[static_cast<std::size_t>(rank++)] = dim_stride;
  }
  std::int64_t count() const {
    std::int64_t n = 1;
    for (std::size_t d = 0; d < static_cast<std::size_t>(rank); ++d) n *= size[d];
    return n;
  }
  /// The offset of an element.
  std::int64_t offset(std::int64_t number) const {
    std::int64_t at = 0;
    for (auto d = static_cast<std::size_t>(rank); d-- > 0; number /= size[d]) at += number % size[d] * stride[d];
    return at;
  }
};

/// A row of dx is what one combination of indices selects. Rows have the elements of `row`, whose operands are dx and
/// dy. Sorted, the numbers `place << shift | position` order positions by the places that they are added to; the place
/// after the last one stands for indices that are outside.
struct Rows {
  Space places;     // indexed dimensions, strides of dx
  Space positions;  // dimensions of index tensors, strides of dy
  int shift = 0;
  Loop row;
  DataType type = DataType::kFloat;
  void* dx = nullptr;
  const void* dy = nullptr;
  std::span<const Operand> indices;
  std::int32_t* error = nullptr;                               // may be null
  std::uint64_t *numbers = nullptr, *other_numbers = nullptr;  // of workspace, one per position

  std::int64_t place_of(std::uint64_t number) const { return static_cast<std::int64_t>(number >> shift); }
  std::int64_t position_of(std::uint64_t number) const {
    return static_cast<std::int64_t>(number & ((std::uint64_t{1} << shift) - 1));
  }
};

void add_rows_on_cpu(Stream&, const Rows&);
void add_rows_on_gpu(Stream&, const Rows&);

}  // namespace polymio::getitem
