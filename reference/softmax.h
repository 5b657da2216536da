// Softmax, its logarithm and their gradients by definition, in double.
// SPDX-License-Identifier: MIT
#pragma once

#include "reference/convolution.h"
#include "reference/tensor.h"
#include "reference/tolerance.h"

namespace polymio::reference {

struct Softmax {
  bool backward = false;
  bool log = false;
  bool instance = false;       // rows are images, else the channels at one pixel
  double scale = 1, keep = 0;  // out = scale * (...) + keep * old
  Tensor in, dy, out;          // in: x, or y of the forward pass; dy: backward only

  std::int64_t row_size() const;
};

// Every output in dense order, or those of `sample` if it is not empty. `old` is read when keep != 0.
Result evaluate(const Softmax& problem, const void* in, const void* dy, const void* old,
                std::span<const std::int64_t> sample = {});

// The error bound of an implementation in float (double for double tensors).
Arithmetic arithmetic(const Softmax& problem);

}  // namespace polymio::reference
