// Kernels of batch normalisation: fp32, fp64; fp16 and bf16 are computed in fp32.
// SPDX-License-Identifier: MIT
#pragma once
#include "base/dtype.h"
#include "kernels/cpu/skeletons.h"

namespace polymio::kernels {

/// What the functors of a call share. An activation restricts its argument to [low, high]; its gradient is 0 unless
/// low < argument <= high. Results are scale * f + keep * old.
struct BatchNormJob {
  DataType type = DataType::kFloat;  // of x
  double low = 0, high = 0;
  double scale = 1, keep = 0;
  bool non_temporal = false;
};

struct BatchNormKernels {
  static constexpr bool kHasDotProducts = false;
  /// Reduces rows of x to {count, pivot, sum of x - pivot, sum of its squares}; applies {mean, factor, bias}: y =
  /// activation((x - mean) * factor + bias).
  const Reduction<>* (*training)(DataType x);
  /// Replaces what training() reduces n rows to, values[k * pitch + row], by {mean, 1 / sqrt(variance + epsilon),
  /// unbiased variance}.
  void (*moments)(double epsilon, std::int64_t n, double* values, std::int64_t pitch);
  /// Replaces n variances by 1 / sqrt(variance + epsilon).
  void (*inverses)(double epsilon, std::int64_t n, double* variances);
  /// y from the inputs x, mean, factor, bias. All but x are float, double for fp64.
  void (*inference)(const BatchNormJob&, const Run&);
  /// Reduces dy to {sum, sum of dy * (x - mean)} and applies {a, b, c}: dx = a * dy + b * (x - mean) + c. Inputs: x,
  /// dy, mean; if `gated` also factor and bias, and dy counts only where the activation has a gradient.
  const Reduction<>* (*backward)(DataType x, DataType dy, bool gated);
};

}  // namespace polymio::kernels
