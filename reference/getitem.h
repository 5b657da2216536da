// The gradient of indexing a tensor by definition, in double.
// SPDX-License-Identifier: MIT
#pragma once

#include <array>

#include "reference/convolution.h"
#include "reference/tensor.h"
#include "reference/tolerance.h"

namespace polymio::reference {

// dx[slices, indices] += dy.
struct Getitem {
  Tensor dy, dx;
  std::vector<Tensor> indices;                      // int32, one for each of `dims`
  std::vector<std::int64_t> dims;                   // consecutive
  std::vector<std::array<std::int64_t, 4>> slices;  // dimension, begin, end, step
  std::int64_t offset = 0;                          // of the first element of the slices in dx

  // dx after the slices, without the offset.
  Tensor view() const;
  // The sizes of dy.
  std::vector<std::int64_t> selected() const;
};

struct GetitemResult {
  Result dx;                     // in dense order
  std::vector<bool> is_outside;  // whether an index of a tensor is
  std::int64_t most = 1;         // elements that are added to one
};
// `old` has dx before the call.
GetitemResult getitem_backward(const Getitem& problem, const void* dy, const std::vector<const void*>& indices,
                               const void* old);

// The error bound of an implementation in float (double for double tensors).
Arithmetic arithmetic(const Getitem& problem, const GetitemResult& result);

}  // namespace polymio::reference
