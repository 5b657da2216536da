// The k-th smallest element by definition: sorting.
// SPDX-License-Identifier: MIT
#pragma once

#include "reference/convolution.h"
#include "reference/tensor.h"

namespace polymio::reference {

struct Kthvalue {
  Tensor x, y;  // y has size 1 in dimension `dim`
  std::int64_t dim = 0;
  std::int64_t k = 1;  // from 1
};

struct Selected {
  Result values;
  Result positions;  // of the first element with the value
};

// All rows in dense order; NaNs are larger than every number, -0 is less than 0.
Selected evaluate(const Kthvalue& problem, const void* x);

}  // namespace polymio::reference
