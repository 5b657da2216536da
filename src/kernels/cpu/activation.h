// Activation functions of dense memory: fp32, fp64, and the 16-bit floats through fp32.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "base/dtype.h"

namespace polymio::kernels {

/// kBackwardFromY: `x` holds the forward result, because that was computed in place. Logistic, tanh,
/// softrelu and ELU take the derivative from it; the other functions treat it as x.
enum class ActivationPass : int { kForward = 0, kBackward = 1, kBackwardFromY = 2 };
inline constexpr int kActivationModes = 10, kActivationPasses = 3;

/// result = scale * f(x) + keep * result, or with dy * f'(x) in place of f(x). x, dy and result may be one
/// buffer; keep == 0 never reads the old result.
struct Activation {
  DataType type = DataType::kFloat;
  int mode = 0;  // miopenActivationMode_t
  ActivationPass pass = ActivationPass::kForward;
  const void* x = nullptr;
  const void* dy = nullptr;  // backward only
  void* result = nullptr;
  double alpha = 0, beta = 0, gamma = 0;  // of the function; float is exact unless the type is double
  double scale = 1, keep = 0;
  bool non_temporal = false;  // stores leave the caches alone; ignored when `result` is also read
};

}  // namespace polymio::kernels
