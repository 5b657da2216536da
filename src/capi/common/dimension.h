// Outputs that lack a dimension of the input which is reduced.
// SPDX-License-Identifier: MIT
#pragma once
#include "base/error.h"
#include "core/problem_text.h"

namespace polymio::capi {

/// The descriptor of `out`, which has the sizes of `in` without dimension `dim`, with a size of 1 there. For an input
/// of rank 1 any output, whose first element is meant. BadParm if the sizes do not fit.
inline TensorDesc with_dimension(const TensorDesc& in, const char* in_name, const TensorDesc& out, const char* name,
                                 int dim) {
  TensorDesc wide;
  wide.type = out.type;
  wide.cast = out.cast;
  wide.vector_length = out.vector_length;
  wide.rank = in.rank;
  bool fits = in.rank == 1 || out.rank == in.rank - 1;
  for (std::size_t d = 0, from = 0; fits && d < static_cast<std::size_t>(in.rank); ++d) {
    const bool is_dim = d == static_cast<std::size_t>(dim);
    wide.lens[d] = is_dim ? 1 : out.lens[from];
    wide.strides[d] = is_dim ? 1 : out.strides[from];
    fits = is_dim || out.lens[from++] == in.lens[d];
  }
  require(fits, "{} has sizes {}, {} has {}: they must be equal without dimension {}", name, sizes_text(out), in_name,
          sizes_text(in), dim);
  return wide;
}

}  // namespace polymio::capi
