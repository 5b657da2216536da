// Gradients of the parametric ReLU over contiguous memory: fp32, fp64; fp16 and bf16 are computed in fp32.
// SPDX-License-Identifier: MIT
#pragma once
#include "base/dtype.h"
#include "kernels/cpu/skeletons.h"

namespace polymio::kernels {

struct PreluKernels {
  static constexpr bool kHasDotProducts = false;
  /// The gradient of the input from the input, the weight and the gradient of the output, in[0] to in[2].
  void (*input)(DataType type, const Run& run);
  /// The sum that the gradient of a weight is, over the input and the gradient of the output.
  const Reduction<>& (*weight)(DataType type);
};

}  // namespace polymio::kernels
