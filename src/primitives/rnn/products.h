// Matrix products of a plan.
// SPDX-License-Identifier: MIT
#pragma once
#include "primitives/matmul/matmul.h"

namespace polymio::rnn {

struct Product {
  AnyInvoker invoke;
  /// c = a x b + beta * c; `workspace` has multiplier_bytes().
  void run(Stream&, const void* a, const void* b, void* c, void* workspace, double beta = 0) const;
};

/// Takes the solver with the least estimate among those that multiplier_bytes() suffice for.
Product make_product(Stream&, const TensorDesc& a, const TensorDesc& b, const TensorDesc& c);

/// Bytes that a matrix product may use.
std::size_t multiplier_bytes(const DeviceInfo&);

}  // namespace polymio::rnn
