// Reductions by definition, in double, one element after the other.
// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "reference/convolution.h"
#include "reference/tensor.h"
#include "reference/tolerance.h"

namespace polymio::reference {

enum class ReduceOp { kAdd, kMul, kMin, kMax, kAmax, kAvg, kNorm1, kNorm2 };  // the numbers of miopenReduceTensorOp_t
// NaNs in extremes: no NaN wins; the last one; the first element only. kZero: NaNs count as 0.
enum class ReduceNan { kIgnore, kPropagate, kFirst, kZero };

// c = alpha * op(a) + beta * c over the dimensions in which c has size 1.
struct Reduction {
  ReduceOp op = ReduceOp::kAdd;
  ReduceNan nan = ReduceNan::kIgnore;
  double alpha = 1, beta = 0;
  Tensor a, c;

  std::int64_t length() const { return a.count() / c.count(); }  // of a row
};

struct Reduced {
  Result values;
  Result positions;  // of extremes: the number of the element, the last reduced dimension fastest
};

// All elements of c in dense order; `old` is c before the call, read if beta is not 0.
Reduced evaluate(const Reduction& problem, const void* a, const void* old);
Arithmetic arithmetic(const Reduction& problem);

}  // namespace polymio::reference
