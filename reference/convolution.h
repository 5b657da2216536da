// Convolution by definition, in double:
//   y[n,k,p] = sum over c, r of x[n, c, p*stride + r*dilation - pad] * w[k,c,r]
// and its exact adjoints for the gradients; 1 to 3 spatial dimensions, groups, any positive
// strides. Transposed mode is the caller's swap of operands and direction.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/tensor.h"

namespace polymio::reference {

enum class Direction { kForward, kBackwardData, kBackwardWeights };

struct Convolution {
  Direction direction = Direction::kForward;
  Tensor x, w, y;                                   // x also describes dx, w dw, y dy
  std::vector<std::int64_t> pad, stride, dilation;  // one per spatial dimension
  std::int64_t groups = 1;
  double alpha = 1;  // as the library gets them: floats, unless y is double
  double beta = 0;

  const Tensor& output() const;
  // Number of products in the sum of one output, those that fall on padding included.
  std::int64_t reduction_length() const;
  // Floating-point operations of the whole problem: two per product.
  double flops() const;
};

// Element 0 of each tensor. The output's pointer is a copy of its contents from before the call; it
// is read only when beta != 0, else it may be null.
struct Operands {
  const void* x = nullptr;
  const void* w = nullptr;
  const void* y = nullptr;
};

struct Result {
  std::vector<double> value;      // alpha * sum + beta * old, not rounded to the output's type
  std::vector<double> magnitude;  // |alpha| * sum of |products| + |beta * old|: errors scale with it
  std::int64_t loads = 0;         // elements of inputs converted to double: what convolutions cost beside products
};

inline constexpr double kCopyBytes = 2.5e8;

// Throws std::invalid_argument, with the reason, when sizes do not fit together. `threads` 0: all processors. Copies of
// images take up to `copy_bytes` bytes, or those of one image; results do not depend on it. Every output, in dense
// order:
Result evaluate(const Convolution& problem, const Operands& data, int threads = 0, double copy_bytes = kCopyBytes);
// The outputs with the given dense indices only: each input is converted once, or less of it when that is cheaper.
Result evaluate(const Convolution& problem, const Operands& data, std::span<const std::int64_t> sample, int threads = 0,
                double copy_bytes = kCopyBytes);

}  // namespace polymio::reference
