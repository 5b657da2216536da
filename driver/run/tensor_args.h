// The flags of primitives whose tensors have the sizes of one input: sizes, layouts, strides and scalars. Depends on
// the standard library and fmt only.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "driver/run/common_args.h"

namespace polymio::driver {

struct TensorArgs {
  DataType type = kFloat;
  std::int64_t spatial_dim = 2, batch = 100, channels = 3, in_d = 32, in_h = 32, in_w = 32, directions = 0;
  std::string in_layout, out_layout;
  std::vector<std::int64_t> in_strides, out_strides, din_strides, dout_strides;
  std::vector<std::int64_t> sizes;  // of a primitive that takes them as one list, instead of those above
  double scale = 1, keep = 0;       // result = scale * f + keep * result

  // The rows of sizes, then `own`, then that of directions unless `own` has it, then those of layouts.
  Flags rows(const Flags& own);
  // The rows of a primitive with a list of sizes, whose flag binds `sizes`: it, then `own`, directions and strides.
  Flags list_rows(const Flag& list, const Flags& own);
  // `own` and the rows of the scalars.
  Flags with_scalars(Flags own);
  // Completes what the rows `all` have set; `defaults` are the rows of a fresh object. Throws ArgError.
  void check(const Flags& all, const Flags& defaults) const;

  std::vector<std::int64_t> lens() const;
  // Of x and y, then of their gradients, in N, C, [D], [H], [W] order.
  std::vector<std::int64_t> x_strides() const { return tensor_strides(lens(), in_layout, in_strides); }
  std::vector<std::int64_t> y_strides() const { return tensor_strides(lens(), out_layout, out_strides); }
  std::vector<std::int64_t> dx_strides() const { return din_strides.empty() ? x_strides() : din_strides; }
  std::vector<std::int64_t> dy_strides() const { return dout_strides.empty() ? y_strides() : dout_strides; }
};

}  // namespace polymio::driver
