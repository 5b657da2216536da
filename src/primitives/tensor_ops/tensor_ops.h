// Element-wise operations on tensors and the bias of a convolution: the face of this folder. Simple
// passes over memory, without find. Operands of NCHWc layouts mix with plain ones. Beta 0 never
// reads the output. Int64 is exact when the scalars are -1, 0 or 1, smaller integers whenever the
// exact result is; integers round to nearest and saturate.
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

/// c = op(alpha1 * a, alpha2 * b) + beta * c; b repeats along dimensions where its size is 1.
void op_tensor(Stream& stream, Op op, double alpha1, Input a, double alpha2, Input b, double beta, Output c);

/// y = the value of y's type at `value`.
void set(Stream& stream, Output y, const void* value);

/// y = y * the value of y's type at `factor`.
void scale(Stream& stream, Output y, const void* factor);

/// y = alpha * x + beta * y, converting type and layout.
void transform(Stream& stream, double alpha, Input x, double beta, Output y);

/// y = alpha * (y + b) + beta * y with one b per channel, as MIOpen computes it.
void bias_forward(Stream& stream, double alpha, Input b, double beta, Output y);

/// db = alpha * (sum of dy over all dimensions but the channel) + beta * db. The order of the sum
/// depends on the problem alone.
void bias_backward(Stream& stream, double alpha, Input dy, double beta, Output db);

/// What a GPU compiles for all of these on tensors of the types, transformations between them included.
std::vector<KernelSpec> programs(const DeviceInfo&, std::span<const DataType> types);

/// What the values of a tensor look like. The last four are over the finite values; 0 without any.
struct Numerics {
  std::int64_t nan, infinite, zeros, count;
  double least, most, mean, mean_abs;
};
Numerics scan(Stream& stream, const TensorDesc& desc, const void* data);

}  // namespace polymio::tensor_ops
