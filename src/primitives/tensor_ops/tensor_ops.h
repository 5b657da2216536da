// Elementwise operations on tensors and the bias of a convolution: the interface of this folder. Passes over memory,
// without find. Operands of NCHWc and plain layouts may be mixed. Beta 0 never reads the output. Int64 is exact when
// the scalars are -1, 0 or 1, smaller integers whenever the result is representable; integers round to nearest and
// saturate.
// SPDX-License-Identifier: MIT
#pragma once
#include <span>
#include <vector>

#include "core/solver.h"
#include "core/tensor.h"
#include "runtime/device.h"

namespace polymio::tensor_ops {

/// Numbers equal miopenTensorOp_t.
enum class Op : int { kAdd = 0, kMul = 1, kMin = 2, kMax = 3 };

inline constexpr int kMaxOpRank = 5;

struct Input {
  const TensorDesc& desc;
  const void* data;
};
struct Output {
  const TensorDesc& desc;
  void* data;
};

/// c = op(alpha1 * a, alpha2 * b) + beta * c; b is broadcast along dimensions where its size is 1.
void op_tensor(Stream& stream, Op op, double alpha1, Input a, double alpha2, Input b, double beta, Output c);

/// y = the value of y's type at `value`.
void set(Stream& stream, Output y, const void* value);

/// y = y * the value of y's type at `factor`.
void scale(Stream& stream, Output y, const void* factor);

/// y = alpha * x + beta * y, converting type and layout.
void transform(Stream& stream, double alpha, Input x, double beta, Output y);

/// y = alpha * (y + b) + beta * y with one b per channel, as MIOpen computes it.
void bias_forward(Stream& stream, double alpha, Input b, double beta, Output y);

/// db = alpha * (sum of dy over all dimensions but the channel) + beta * db. The order of the sum depends only on the
/// problem.
void bias_backward(Stream& stream, double alpha, Input dy, double beta, Output db);

/// The programs that a GPU needs for all of these on tensors of the given types, conversions included.
std::vector<KernelSpec> programs(const DeviceInfo&, std::span<const DataType> types);

/// Statistics of the values of a tensor. The last four are over the finite values; 0 if there are none.
struct Numerics {
  std::int64_t nan, infinite, zeros, count;
  double least, most, mean, mean_abs;
};
Numerics scan(Stream& stream, const TensorDesc& desc, const void* data);

}  // namespace polymio::tensor_ops
