// Kernels of operations on tensors: fp32, fp64; fp16 and bf16 are computed in fp32. Other types have none.
// SPDX-License-Identifier: MIT
#pragma once
#include "base/dtype.h"
#include "kernels/cpu/skeletons.h"

namespace polymio::kernels {

/// The first four equal miopenTensorOp_t; kFirst: alpha1 * a.
enum class BinaryFunction : int { kAdd = 0, kMul = 1, kMin = 2, kMax = 3, kFirst = 4 };

/// out = f(alpha1 * a, alpha2 * b) + beta * out. Products are rounded before they are added, so that every instruction
/// set has the same results.
struct Binary {
  BinaryFunction function = BinaryFunction::kFirst;
  DataType in = DataType::kFloat, out = DataType::kFloat;  // may differ for kFirst only
  double alpha1 = 1, alpha2 = 1, beta = 0;
};
using BinaryKernel = void (*)(const Binary&, const Run&);

struct TensorOpsKernels {
  static constexpr bool kHasDotProducts = false;
  /// The kernel of a binary operation, or null if there is none for its types.
  BinaryKernel (*binary)(const Binary& job);
  /// The sum in double of elements of a type, or null.
  const Reduction<>* (*sum)(DataType type);
};

}  // namespace polymio::kernels
