// Rotary position embeddings over contiguous memory: fp32, fp64; fp16 and bf16 are computed in fp32.
// SPDX-License-Identifier: MIT
#pragma once
#include "base/dtype.h"
#include "kernels/cpu/skeletons.h"

namespace polymio::kernels {

struct RopeKernels {
  static constexpr bool kHasDotProducts = false;
  /// A run of whole pairs from x, cos and sin, in[0] to in[2]; backward of x from the gradient of y.
  void (*run)(DataType type, bool backward, const Run& run);
};

}  // namespace polymio::kernels
