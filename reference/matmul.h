// Batched matrix products by definition, in double.
// SPDX-License-Identifier: MIT
#pragma once

#include "reference/convolution.h"
#include "reference/tensor.h"
#include "reference/tolerance.h"

namespace polymio::reference {

// c = alpha * a x b + beta * c: a [batch.., m, k], b [batch.., k, n], c [batch.., m, n]; a batch size of a or b may
// be 1.
struct Matmul {
  double alpha = 1, beta = 0;
  std::int64_t k = 0;  // may be 0: the tensors then have a depth of 1, which is not read
  Tensor a, b, c;
};

// Every element of c in dense order. `old` is read when beta != 0.
Result evaluate(const Matmul& problem, const void* a, const void* b, const void* old);

// The error bound of an implementation in float (double for double tensors).
Arithmetic arithmetic(const Matmul& problem);

}  // namespace polymio::reference
