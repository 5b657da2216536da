// Transposes by squares of vectors. The last square of a row or column overlaps the one before it.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/copy.h"

#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/vec.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

template <int kN, class T>
void transpose_squares(const T* from, i64 from_stride, T* to, i64 to_stride, i64 rows, i64 columns) {
  if constexpr (kN < 4) {
    for (i64 c = 0; c < columns; ++c)
      for (i64 r = 0; r < rows; ++r) to[c * to_stride + r] = from[r * from_stride + c];
  } else {
    if (rows < kN || columns < kN) return transpose_squares<kN / 2>(from, from_stride, to, to_stride, rows, columns);
    for (i64 c = 0; c < columns; c += kN)
      for (i64 r = 0; r < rows; r += kN) {
        const i64 column = min_of(c, columns - kN), row = min_of(r, rows - kN);
        typename VecType<T, kN>::type square[kN];
#pragma GCC unroll 16
        for (int i = 0; i < kN; ++i) square[i] = load<T, kN>(from + (row + i) * from_stride + column);
        transpose(square);
#pragma GCC unroll 16
        for (int i = 0; i < kN; ++i) store<T, kN>(to + (column + i) * to_stride + row, square[i]);
      }
  }
}

template <class T>
void transpose_as(const void* from, i64 from_stride, void* to, i64 to_stride, i64 rows, i64 columns) {
  constexpr int kN = min_of(kLanes<T>, 16);
  transpose_squares<kN>(static_cast<const T*>(from), from_stride, static_cast<T*>(to), to_stride, rows, columns);
}

Transpose transpose_of(std::size_t size) {
  switch (size) {
    case 1: return &transpose_as<std::uint8_t>;
    case 2: return &transpose_as<std::uint16_t>;
    case 4: return &transpose_as<std::uint32_t>;
    default: return &transpose_as<std::uint64_t>;
  }
}

}  // namespace

template <>
const CopyKernels& entry_points<CopyKernels>() {
  static constexpr CopyKernels kKernels{.transpose = transpose_of};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
