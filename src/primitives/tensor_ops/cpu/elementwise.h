// One pass over the elements of a tensor: out = f(a, b) + beta * out, and plain copies.
// SPDX-License-Identifier: MIT
#pragma once
#include "primitives/tensor_ops/cpu/loop.h"
#include "primitives/tensor_ops/tensor_ops.h"
#include "runtime/device.h"

namespace polymio::tensor_ops {

enum class Function { kAdd, kMul, kMin, kMax, kFirst };  // the first four as Op; kFirst: alpha1 * a

struct Elementwise {
  Function function = Function::kFirst;
  double alpha1 = 1, alpha2 = 1, beta = 0;
  Loop loop;  // operands out, a, b
  std::array<const void*, kOperands> data{};
  std::array<DataType, kOperands> types{};
  void* out = nullptr;
};

void run_elementwise(Stream& stream, const Elementwise& pass);

/// Copies elements of `size` bytes from operand 1 to operand 0 of the loop.
void run_copy(Stream& stream, const Loop& loop, std::size_t size, const void* src, void* dst);

/// 128-bit integers instead of doubles: every type is an integer, one is int64, and the scalars only
/// choose signs.
bool needs_exact(std::span<const DataType> types, std::span<const double> scalars);

/// Doubles instead of floats.
bool needs_double(std::span<const DataType> types);

}  // namespace polymio::tensor_ops
