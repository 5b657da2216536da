// The passes over tensors that each kind of device implements, behind the functions of tensor_ops.h.
// SPDX-License-Identifier: MIT
#pragma once
#include "core/loop.h"
#include "kernels/cpu/tensor_ops.h"
#include "primitives/tensor_ops/tensor_ops.h"
#include "runtime/device.h"

namespace polymio::tensor_ops {

inline constexpr std::size_t kOperands = 3;  // the output and up to two inputs

using Function = kernels::BinaryFunction;  // the first four as Op

/// out = f(a, b) + beta * out.
struct Elementwise {
  Function function = Function::kFirst;
  double alpha1 = 1, alpha2 = 1, beta = 0;
  Loop loop;  // operands out, a, b
  std::array<const void*, kOperands> data{};
  std::array<DataType, kOperands> types{};
  void* out = nullptr;
  bool host_b = false;  // b is one value in host memory
};

struct Passes {
  void (*elementwise)(Stream&, const Elementwise&);
  /// Copies elements of `size` bytes from operand 1 of the loop to operand 0, or the one at `value` in host memory.
  void (*copy)(Stream&, const Loop&, std::size_t size, const void* src, void* dst);
  void (*fill)(Stream&, const Loop&, std::size_t size, const void* value, void* dst);
  /// db = alpha * (sum of dy over everything but the channels) + beta * db. The caller has checked the sizes.
  void (*bias_backward)(Stream&, double alpha, Input dy, double beta, Output db);
};
extern const Passes kCpuPasses, kGpuPasses;

/// Whether to compute in 128-bit integers: every type is an integer, one is int64, and the scalars are -1, 0 or 1.
bool needs_exact(std::span<const DataType> types, std::span<const double> scalars);

/// Whether to compute in double instead of float.
bool needs_double(std::span<const DataType> types);

void run_bias_backward(Stream&, double alpha, Input dy, double beta, Output db);  // CPU

}  // namespace polymio::tensor_ops
