// Loss functions by definition, in double.
// SPDX-License-Identifier: MIT
#pragma once

#include "reference/convolution.h"
#include "reference/tensor.h"
#include "reference/tolerance.h"

namespace polymio::reference {

// The numbers of miopenLossReductionMode_t.
enum class LossReduction { kNone = 0, kSum = 1, kMean = 2 };

struct SoftMargin {
  Tensor x, target;
  LossReduction reduction = LossReduction::kNone;
};

// log(1 + e^(-x target)) of each element in dense order, or their sum or mean.
Result evaluate(const SoftMargin& p, const void* x, const void* target);
// Its derivative times dy, which has the sizes of x or one element.
Result gradient(const SoftMargin& p, const void* x, const void* target, const Tensor& dy, const void* grad);

struct MultiMargin {
  Tensor x, target, weight;  // (N, C); N numbers of classes, int64; C numbers
  LossReduction reduction = LossReduction::kNone;
  std::int64_t power = 1;
  double margin = 1;
};

// For each row with class t the sum over all other classes c of weight[t] max(0, margin - x[t] + x[c])^power, divided
// by C; 0 if t is no class. Or the sum or mean of these.
Result evaluate(const MultiMargin& p, const void* x, const void* target, const void* weight);

// The error bounds of implementations in float (double for double tensors).
Arithmetic arithmetic(const SoftMargin& p, bool of_gradient);
Arithmetic arithmetic(const MultiMargin& p);

}  // namespace polymio::reference
