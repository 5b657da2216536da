// Kernels of softmax: fp32, fp64; fp16 and bf16 are computed in fp32. Other types have none.
// SPDX-License-Identifier: MIT
#pragma once
#include "base/dtype.h"
#include "kernels/cpu/skeletons.h"

namespace polymio::kernels {

/// out = scale * result + keep * out.
struct Softmax {
  double scale = 1, keep = 0;
  bool non_temporal = false;
};

/// Reductions of rows, whose job is a Softmax. Null for other types.
struct SoftmaxKernels {
  static constexpr bool kHasDotProducts = false;
  /// y from x. Values that are reduced: the maximum m and the sum of exp(x - m). Values that apply takes: m and the
  /// inverse of the sum, or its logarithm if `log`.
  const Reduction<>* (*forward)(DataType, bool log);
  /// dx from y and dy. The value: the sum of y dy, or of dy if `log`.
  const Reduction<>* (*backward)(DataType, bool log);
};

}  // namespace polymio::kernels
