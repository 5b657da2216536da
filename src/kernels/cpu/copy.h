// Transposes of matrices of any elements.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

namespace polymio::kernels {

/// to[c * to_stride + r] = from[r * from_stride + c] for r < rows and c < columns. The matrices share no memory.
using Transpose = void (*)(const void* from, std::int64_t from_stride, void* to, std::int64_t to_stride,
                           std::int64_t rows, std::int64_t columns);

struct CopyKernels {
  static constexpr bool kHasDotProducts = false;
  /// Of elements of 1, 2, 4 or 8 bytes.
  Transpose (*transpose)(std::size_t size);
};

}  // namespace polymio::kernels
