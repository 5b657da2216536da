// A tensor as a plain value: type, sizes and strides in elements, always in the order N, C, [D],
// [H], W (weights: K, C per group, ...). "Dense index" below means the row-major number of an
// element, whatever the strides are.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

#include "reference/types.h"

namespace polymio::reference {

struct Tensor {
  Type type = Type::kFloat;
  Type cast = Type::kFloat;  // inputs are rounded to this type before they are multiplied
  std::vector<std::int64_t> lens;
  std::vector<std::int64_t> strides;

  Tensor() = default;
  // Packed in row-major order when no strides are given.
  Tensor(Type type, std::vector<std::int64_t> lens, std::vector<std::int64_t> strides = {});

  std::int64_t count() const;                     // number of elements
  std::int64_t space() const;                     // elements from the first to the last address, holes included
  std::int64_t offset(std::int64_t dense) const;  // address, in elements, of a dense index
  std::size_t bytes() const { return static_cast<std::size_t>(space()) * size_of(type); }
};

// Strides of a packed tensor: channels first (NCHW) or channels last (NHWC).
std::vector<std::int64_t> packed_strides(const std::vector<std::int64_t>& lens, bool channels_last = false);

// Ascending distinct dense indices: all corners, and pseudo-random others up to `count` in all
// (every index when the tensor has no more than `count`). Equal arguments give equal samples.
std::vector<std::int64_t> sample_indices(const Tensor& tensor, std::int64_t count, std::uint64_t seed = 0);

// 1 for each byte of tensor.bytes() that belongs to an element, 0 for those in gaps between strided elements.
std::vector<unsigned char> element_bytes(const Tensor& tensor);

}  // namespace polymio::reference
