// The gradients of a parametric ReLU, y = x > 0 ? x : weight * x, with one weight for all elements or one per channel
// (dimension 1). Passes over memory, without find. Results do not depend on threads.
// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "core/solver.h"
#include "core/tensor.h"
#include "runtime/device.h"

namespace polymio::prelu {

/// Tensors of one of fp32, fp16, bf16 and fp64, of any strides. An output without data is not computed.
struct Backward {
  struct Input {
    TensorDesc desc{};
    const void* data = nullptr;
  };
  struct Output {
    TensorDesc desc{};
    void* data = nullptr;
  };
  Input x, weight, dy;
  Output dx, dweight;  // dx may be x or dy
};

/// dx = x > 0 ? dy : weight * dy; dweight = sum of (x > 0 ? 0 : x * dy). Throws BadParm for tensors that do not fit
/// together, and for less workspace than workspace_size().
void backward(Stream&, const Backward&, void* workspace, std::size_t workspace_bytes);

/// Bytes that backward() needs, whatever the strides of the tensors. None on a CPU.
std::size_t workspace_size(const DeviceInfo&, const TensorDesc& x, const TensorDesc& weight);

/// The GPU kernels for tensors of a type.
std::vector<KernelSpec> programs(const DeviceInfo&, DataType);

}  // namespace polymio::prelu
