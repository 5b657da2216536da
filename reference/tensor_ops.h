// The tensor operations of the C API by definition, in double. Every function returns all elements
// of the output in dense order; `old` is a copy of the output from before the call, read only when
// its factor is not 0.
// SPDX-License-Identifier: MIT
#pragma once

#include "reference/convolution.h"
#include "reference/tensor.h"

namespace polymio::reference {

enum class TensorOp { kAdd = 0, kMul = 1, kMin = 2, kMax = 3 };  // the numbers of miopenTensorOp_t

// c = op(alpha1 * a, alpha2 * b) + beta * c, where b repeats along the dimensions in which its size
// is 1.
struct OpTensor {
  TensorOp op = TensorOp::kAdd;
  double alpha1 = 1, alpha2 = 1, beta = 0;
  Tensor a, b, c;
};
Result op_tensor(const OpTensor& problem, const void* a, const void* b, const void* old);

Result set_tensor(const Tensor& y, double value);
Result scale_tensor(const Tensor& y, double alpha, const void* old);

// y = alpha * x + beta * y, with conversion between types and layouts.
Result transform_tensor(double alpha, const Tensor& x, const void* x_data, double beta, const Tensor& y,
                        const void* old);

// y = alpha * b + beta * y for every pixel; b has sizes 1, K, 1, ...
Result bias_forward(double alpha, const Tensor& b, const void* b_data, double beta, const Tensor& y, const void* old);

// db = alpha * (sum of dy over everything but the channel) + beta * db.
Result bias_backward(double alpha, const Tensor& dy, const void* dy_data, double beta, const Tensor& db,
                     const void* old);

}  // namespace polymio::reference
