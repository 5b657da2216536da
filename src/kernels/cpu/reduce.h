// Kernels of reductions: fp32, fp16, bf16 and int8 are summed and compared in fp32, fp64 and int32 in fp64.
// SPDX-License-Identifier: MIT
#pragma once
#include "base/dtype.h"
#include "kernels/cpu/skeletons.h"

namespace polymio::kernels {

/// kNumbers: the sum of all elements but NaNs. Squares and products, which float may not hold, are in double. kLargest:
/// the largest number. kExtreme: the same, and a NaN if there is one, else 0. kPosition: the largest element and its
/// number.
enum class ReduceKind { kSum, kMagnitudes, kNumbers, kSquares, kProduct, kLargest, kExtreme, kPosition };

struct ReduceJob {
  bool magnitude = false;  // of extremes: of |x|
  bool negative = false;   // of extremes: of -x
  bool propagate = false;  // of positions: the last NaN is larger than every number; else NaNs are ignored
  double first = 0;        // of extremes: the value of no elements
  bool zero = false;       // of products: NaNs count as 0
};

struct ReduceKernels {
  static constexpr bool kHasDotProducts = false;
  /// Null if there is none for the type.
  const Reduction<>* (*kernel)(ReduceKind kind, DataType type);
};

}  // namespace polymio::kernels
