// Tensor maps: how the copy engine of an NVIDIA multiprocessor (TMA) sees a tensor.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>

namespace polymio {

/// What a tensor map describes: a tensor in device memory that the copy engine of an NVIDIA multiprocessor (TMA) reads
/// or writes in boxes. Dimensions are ordered fastest first. The address and all strides are multiples of 16 bytes.
struct TensorMapSpec {
  enum class Element { kBytes, kFloat16, kBfloat16, kFloat32, kTf32 } element = Element::kBytes;
  int rank = 0;                             // 1 to 5; im2col: 3 to 5
  std::array<std::int64_t, 5> sizes{};      // in elements
  std::array<std::int64_t, 5> strides{};    // in bytes; the first, of one element, is implied and not read
  std::array<int, 5> box{};                 // elements of a box; im2col: channels and pixels per load
  std::array<int, 5> steps{1, 1, 1, 1, 1};  // elements from one of a box to the next
  bool im2col = false;                      // boxes are pixels in order, of all images: {C, W[, H[, D]], N}
  std::array<int, 3> lower{}, upper{};      // im2col: corners of the pixels that are read, W first
  int swizzle = 128;                        // bytes: 0, 32, 64 or 128
  bool operator==(const TensorMapSpec&) const = default;
};

/// An encoded map; kernels take it as a __grid_constant__ argument.
struct alignas(64) TensorMap {
  std::array<std::uint64_t, 16> bits{};
};

}  // namespace polymio
