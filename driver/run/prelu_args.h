// The flags of the parametric ReLU.
// SPDX-License-Identifier: MIT
#pragma once

#include "driver/run/tensor_args.h"

namespace polymio::driver {

struct PreluArgs {
  static constexpr std::string_view kName = "prelu";
  std::int64_t weights = 1;

  static TensorArgs tensors() {
    TensorArgs args;
    args.sizes = {256, 4, 1, 1, 8723};
    return args;
  }
  // The rows, with those of sizes and strides, which `tensors` gets.
  Flags rows(TensorArgs& tensors) {
    return tensors.list_rows(
        {"D", "DimLengths", Integers{&tensors.sizes}, "sizes of the input: N,C,..", Part::kShape},
        {{"P", "NumParameters", Integer{&weights, 1, kMaxInt}, "weights: 1, or one per channel", Part::kShape}});
  }
};

}  // namespace polymio::driver
