// Losses over contiguous memory: fp32, fp64; fp16 and bf16 are computed in fp32.
// SPDX-License-Identifier: MIT
#pragma once
#include "base/dtype.h"
#include "kernels/cpu/skeletons.h"

namespace polymio::kernels {

/// The sum of max(0, x + shift)^power; the power is 1 or 2.
struct Hinge {
  double shift = 0;
  int power = 1;
};

struct LossKernels {
  static constexpr bool kHasDotProducts = false;
  /// log(1 + e^(-x t)) of the input x and the target t, in[0] and in[1].
  void (*soft_margin)(DataType type, const Run& run);
  /// scale * dy times its derivative; in[2] is dy.
  void (*soft_margin_backward)(DataType type, double scale, const Run& run);
  /// The sum of soft_margin.
  const Reduction<>& (*soft_margin_sum)(DataType type);
  /// The job is a Hinge.
  const Reduction<>& (*hinge_sum)(DataType type);
};

}  // namespace polymio::kernels
