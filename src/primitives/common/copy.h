// Copies of elements of any type between tensors of any strides on the CPU.
// SPDX-License-Identifier: MIT
#pragma once
#include "base/cpu_isa.h"
#include "core/loop.h"
#include "kernels/cpu/copy.h"

namespace polymio::common {

/// Copies n elements of `size` bytes.
void copy_elements(std::size_t size, const void* from, std::int64_t from_stride, void* to, std::int64_t to_stride,
                   std::int64_t n);

/// Copies matrices: rows whose memory is contiguous, others by squares that are transposed, where one is contiguous.
class MatrixCopy {
 public:
  struct Side {
    void* data;
    std::int64_t row, element;  // strides
  };

  /// size: bytes of an element.
  MatrixCopy(CpuIsa isa, std::size_t size);
  /// `rows` of n elements.
  void operator()(const Side& from, const Side& to, std::int64_t rows, std::int64_t n) const;

 private:
  std::size_t size_;
  kernels::Transpose transpose_;
};

/// Copies operand 1 of the loop to operand 0 on all threads.
void copy(Stream&, const Loop&, std::size_t size, const void* from, void* to);

}  // namespace polymio::common
