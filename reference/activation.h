// Activation functions and their derivatives by definition, in double; and the gated linear unit.
// SPDX-License-Identifier: MIT
#pragma once

#include "reference/convolution.h"
#include "reference/tensor.h"
#include "reference/tolerance.h"

namespace polymio::reference {

// The numbers of miopenActivationMode_t; swish, x / (1 + e^(-alpha x)), is not among them.
enum class ActivationMode {
  kPassthru = 0,
  kLogistic = 1,
  kTanh = 2,
  kRelu = 3,
  kSoftrelu = 4,
  kAbs = 5,
  kPower = 6,
  kClippedRelu = 7,
  kLeakyRelu = 8,
  kElu = 9,
  kClamp = 10,
  kSwish = 11,
};

struct Activation {
  ActivationMode mode = ActivationMode::kPassthru;
  bool backward = false;
  double alpha = 0, beta = 0, gamma = 0;  // rounded to float by the caller, unless the tensors are double
  double scale = 1, keep = 0;             // out = scale * (...) + keep * old
  Tensor x, dy, out;                      // dy: backward only
};

// f(x), or dy * f'(x). At a kink f' is the left derivative, except that of |x| at 0, which is 0.
double activate(const Activation& problem, double x);
double activate_backward(const Activation& problem, double x, double dy);

// Every output in dense order, or those of `sample` if it is not empty. `old` is read when keep != 0.
Result evaluate(const Activation& problem, const void* x, const void* dy, const void* old,
                std::span<const std::int64_t> sample = {});

// The error bound of an implementation in float (double for double tensors).
Arithmetic arithmetic(const Activation& problem);

// a * logistic(b) of the halves a, b of `in` along dimension `dim`; and the gradient of `in`.
Result glu(const Tensor& in, const void* x, std::size_t dim);
Result glu_backward(const Tensor& in, const void* x, const Tensor& out, const void* dy, std::size_t dim);

}  // namespace polymio::reference
