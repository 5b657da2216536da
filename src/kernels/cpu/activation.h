// Activation functions over contiguous memory: fp32, fp64; fp16 and bf16 are computed in fp32.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/skeletons.h"

namespace polymio::kernels {

/// kBackwardFromY: `x` holds the forward result, because the forward pass ran in place. Logistic, tanh,
/// softrelu and ELU compute the derivative from it; the other functions treat it as x.
enum class ActivationPass : int { kForward = 0, kBackward = 1, kBackwardFromY = 2 };
inline constexpr int kActivationModes = 12, kActivationPasses = 3;

/// result = scale * f(x) + keep * result, or dy * f'(x) instead of f(x). x, dy and result may be the same
/// buffer; the old result is not read if keep is 0.
struct Activation {
  DataType type = DataType::kFloat;
  int mode = 0;  // miopenActivationMode_t, or 11: x / (1 + e^(-alpha x))
  ActivationPass pass = ActivationPass::kForward;
  const void* x = nullptr;
  const void* dy = nullptr;  // backward only
  void* result = nullptr;
  double alpha = 0, beta = 0, gamma = 0;  // parameters of the function; representable as float unless type is fp64
  double scale = 1, keep = 0;
  bool non_temporal = false;  // streaming stores; ignored when the old result is read
};

struct ActivationKernels {
  static constexpr bool kHasDotProducts = false, kTestedPerInstructionSet = true;
  /// Elements [first, end).
  void (*run)(const Activation& job, std::int64_t first, std::int64_t end);
  /// A run of out = a * logistic(b), in[0] and in[1]; backward of da and db, from a, b and the gradient of out.
  void (*glu)(DataType type, bool backward, const Run& run);
};

}  // namespace polymio::kernels
