// Rotary position embeddings: elements 2i and 2i + 1 of the last dimension are a pair (x0, x1). Element number o of x
// uses element o modulo their number of cos and sin, which usually have the last sizes of x. A pass over memory,
// without find.
// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "core/solver.h"
#include "core/tensor.h"
#include "runtime/device.h"

namespace polymio::rope {

/// x and y have equal sizes, of which the last is even, and cos and sin have; all are of one of fp32, fp16, bf16 and
/// fp64. The number of elements of cos is even and divides that of x. Strides are any that let the elements of x be
/// paired with those of cos by a loop nest, which is always so if cos and sin have the last sizes of x, or if all are
/// packed.
struct Tensors {
  struct Input {
    TensorDesc desc{};
    const void* data = nullptr;
  };
  Input x, cos, sin;
  TensorDesc y_desc{};
  void* y = nullptr;  // may be x
};

/// y0 = x0 cos0 - x1 sin0, y1 = x1 cos1 + x0 sin1. Throws BadParm for tensors that do not fit together.
void forward(Stream&, const Tensors&);

/// The transposed operation, the gradient of x from that of y: y0 = x0 cos0 + x1 sin1, y1 = x1 cos1 - x0 sin0, where x
/// is the gradient of y and y is that of x.
void backward(Stream&, const Tensors&);

/// The GPU kernels for tensors of a type.
std::vector<KernelSpec> programs(const DeviceInfo&, DataType);

}  // namespace polymio::rope
