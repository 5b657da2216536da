// The gradients of the parametric ReLU by definition, in double.
// SPDX-License-Identifier: MIT
#pragma once

#include "reference/convolution.h"
#include "reference/tensor.h"
#include "reference/tolerance.h"

namespace polymio::reference {

struct Prelu {
  Tensor x, dy, weight;  // one weight, or one for each channel
};

// dx = x > 0 ? dy : weight * dy: all elements in dense order, or those of `sample` if it is not empty.
Result prelu_input(const Prelu& p, const void* x, const void* weight, const void* dy,
                   std::span<const std::int64_t> sample = {});

// The sum of (x > 0 ? 0 : x * dy) for each weight.
Result prelu_weight(const Prelu& p, const void* x, const void* dy);

// The error bound of an implementation in float (double for double tensors).
Arithmetic arithmetic(const Prelu& p, bool of_weight);

}  // namespace polymio::reference
