// One step of Adam and its relatives by definition, in double.
// SPDX-License-Identifier: MIT
#pragma once

#include "reference/convolution.h"
#include "reference/tensor.h"
#include "reference/tolerance.h"

namespace polymio::reference {

enum class Optimizer { kAdam, kAdamW, kTransformersAdamW };

// Numbers are rounded to float by the caller.
struct Adam {
  Optimizer kind = Optimizer::kAdam;
  double rate = 0.001, beta1 = 0.9, beta2 = 0.999, weight_decay = 0, eps = 1e-8;
  double step = 1, scale = 1;  // number of this step; what the gradient is divided by
  double step_size = -1;       // of TransformersAdamW: replaces what rate and step give unless negative
  bool maximize = false, skip = false, correct_bias = true;
  // The parameters, the mean, the mean square and, if amsgrad is used, its maximum, in this order along the first
  // dimension; the other dimensions are those of the gradient.
  Tensor state, gradient;
};

// The new state, in dense order.
Result evaluate(const Adam& problem, const void* state, const void* gradient);

// The error bound of an implementation in float (double for double tensors).
Arithmetic arithmetic(const Adam& problem);

// A state of `parts` tensors like `part`, without gaps between them.
Tensor adam_state(const Tensor& part, std::int64_t parts);

}  // namespace polymio::reference
