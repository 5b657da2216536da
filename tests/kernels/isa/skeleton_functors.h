// Kernels made by the skeletons, for the tests: one set per instruction set.
// SPDX-License-Identifier: MIT
#pragma once
#include "base/dtype.h"
#include "kernels/cpu/skeletons.h"

namespace polymio::test {

struct SkeletonJob {
  double factor = 1;
};

/// Null where a kernel does not exist for a type.
struct SkeletonKernels {
  static constexpr bool kHasDotProducts = false, kTestedPerInstructionSet = true;
  const kernels::Reduction<>* (*softmax)(DataType);  // apply: exp(x - max) / sum
  const kernels::Reduction<>* (*moments)(DataType);  // count, mean and squared deviations; apply: (x - mean) * w
  const kernels::Reduction<>* (*argmax)(DataType);   // largest element and its number
  const kernels::Reduction<>* (*sum_and_largest)(DataType);  // in double: sum and largest magnitude
  /// The sum of factor * x * y, y being one number per row of columns; apply: factor * x + the sum. Half, float.
  const kernels::Reduction<>* (*weighted)();
  /// y = factor * a + b, z = max(a, b).
  void (*two_outputs)(DataType, const SkeletonJob&, const kernels::Run&);
  /// int8 y = factor * a (int32), arithmetic in double.
  void (*quantize)(const SkeletonJob&, const kernels::Run&);
  /// y = a (float), rounded to half or bfloat16.
  void (*round)(DataType, bool non_temporal, const kernels::Run&);
};

}  // namespace polymio::test
