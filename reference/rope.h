// Rotary position embeddings by definition, in double.
// SPDX-License-Identifier: MIT
#pragma once

#include "reference/convolution.h"
#include "reference/tensor.h"
#include "reference/tolerance.h"

namespace polymio::reference {

struct Rope {
  Tensor x, cos;  // backward: x is the gradient of the output; sin is packed as cos
  bool backward = false;
};

// With f = o modulo the number of elements of cos, element o is x[o] cos[f] + r sin[f], where r is -x[o + 1] for even o
// and x[o - 1] for odd ones; backward it is x[o] cos[f] + r sin[f ^ 1], where r is x[o + 1] and -x[o - 1]. All elements
// in dense order, or those of `sample` if it is not empty.
Result evaluate(const Rope& p, const void* x, const void* cos, const void* sin,
                std::span<const std::int64_t> sample = {});

// The error bound of an implementation in float (double for double tensors).
Arithmetic rope_arithmetic(Type type);

}  // namespace polymio::reference
