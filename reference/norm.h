// Normalizations and their gradients by definition, in double.
// SPDX-License-Identifier: MIT
#pragma once

#include <array>

#include "reference/convolution.h"
#include "reference/tensor.h"
#include "reference/tolerance.h"

namespace polymio::reference {

enum class NormKind { kLayer, kAddLayer, kRms, kGroup };

struct Norm {
  NormKind kind = NormKind::kLayer;
  bool affine = false;      // weight and bias (RMS: weight) are applied
  std::int64_t first = 1;   // the first dimension of a row; ignored for groups
  std::int64_t groups = 1;  // of channels
  double epsilon = 1e-5;    // forward
  Tensor x, x2, dy, out;    // x2: sums only; dy: backward only; out: y or dx
  Type parameters = Type::kFloat, statistics = Type::kFloat;

  std::int64_t rows() const;
  std::int64_t length() const { return x.count() / rows(); }
  // One element per element of a row (per channel for groups), and one per row.
  Tensor parameter() const;
  Tensor statistic() const;
};

// Element 0 of each tensor. Without `affine` weight and bias are not read.
struct NormData {
  const void *x = nullptr, *x2 = nullptr, *weight = nullptr, *bias = nullptr;
  const void *dy = nullptr, *mean = nullptr, *rstd = nullptr;  // backward
};

// y, mean and rstd; RMS: the mean is empty. All elements, in dense order.
std::array<Result, 3> norm_forward(const Norm& problem, const NormData& data);
// dx, dw and db; RMS: db is empty.
std::array<Result, 3> norm_backward(const Norm& problem, const NormData& data);

// The error bound of an implementation in float (double for double tensors), of a result of this type that sums
// `length` elements.
Arithmetic arithmetic(const Norm& problem, Type output, std::int64_t length);

}  // namespace polymio::reference
