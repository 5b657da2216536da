// Concatenation by definition.
// SPDX-License-Identifier: MIT
#pragma once

#include "reference/convolution.h"
#include "reference/tensor.h"

namespace polymio::reference {

// The elements of the tensors, one after the other along dimension `dim`, in dense order. Sizes along other dimensions
// are equal.
Result cat(const std::vector<Tensor>& tensors, const std::vector<const void*>& data, std::size_t dim);

}  // namespace polymio::reference
