// A convolution, a bias, a batch norm with given moments and an activation in this order, each of which may be missing,
// in double.
// SPDX-License-Identifier: MIT
#pragma once

#include "reference/batch_norm.h"

namespace polymio::reference {

struct Fusion {
  bool has_convolution = true, has_bias = true, has_norm = true, has_activation = true;
  Convolution convolution;  // its x is the input of all, its y the result
  Tensor bias;              // one element per channel
  BatchNorm norm;           // inference; only the mode, the epsilon and the tensors of parameters are used
  Activation activation;
};

struct FusionInputs {
  const void *x = nullptr, *w = nullptr, *bias = nullptr, *scale = nullptr, *shift = nullptr, *mean = nullptr,
             *variance = nullptr;
};

// The results with the given dense indices, all if there are none.
Result evaluate(const Fusion& problem, const FusionInputs& inputs, std::span<const std::int64_t> sample = {});

// Results of 16 bits may be rounded between the operations.
Arithmetic arithmetic(const Fusion& problem);

}  // namespace polymio::reference
