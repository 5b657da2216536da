// Local response normalisation and its gradient by definition, in double.
//   scale = k + alpha / window * sum of x^2, y = x * scale^-beta
//   dx = dy * scale^-beta - 2 * alpha * beta / window * x * sum of y * dy / scale
// The window of i has the elements from i - (n - 1) / 2 to i + n / 2 of its dimensions, as far as they exist; the
// second sum is over the elements whose window has i. "window" is the number of elements of a whole window.
// SPDX-License-Identifier: MIT
#pragma once

#include "reference/convolution.h"
#include "reference/tensor.h"
#include "reference/tolerance.h"

namespace polymio::reference {

struct Lrn {
  bool cross = false;     // across channels, else within a channel: along all other dimensions but the first
  bool backward = false;  // out is dx
  std::int64_t n = 5;
  double alpha = 1, beta = 0.75, k = 1;
  Tensor x, y, dy, out;  // y: of the scales, too; forward needs no dy
};

// Every output in dense order, or those of `sample` if it is not empty. Backward reads y and dy, and the scales unless
// they are null: then they are computed from x.
Result evaluate(const Lrn& problem, const void* x, const void* y, const void* dy, const void* scale,
                std::span<const std::int64_t> sample = {});
// The scale of every element, or those of `sample`.
Result lrn_scale(const Lrn& problem, const void* x, std::span<const std::int64_t> sample = {});

// The error bound of an implementation in float (double for double tensors).
Arithmetic arithmetic(const Lrn& problem);

}  // namespace polymio::reference
