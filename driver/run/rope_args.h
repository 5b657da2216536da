// The flags of rotary position embeddings.
// SPDX-License-Identifier: MIT
#pragma once

#include "driver/run/tensor_args.h"

namespace polymio::driver {

struct RopeArgs {
  static constexpr std::string_view kName = "rope";
  std::vector<std::int64_t> rotary;

  static TensorArgs tensors() {
    TensorArgs args;
    args.sizes = {100, 3, 32, 32};
    return args;
  }
  // The rows, with those of sizes and strides, which `tensors` gets.
  Flags rows(TensorArgs& tensors) {
    return tensors.list_rows(
        {"X", "input", Integers{&tensors.sizes}, "sizes of x", Part::kShape},
        {{"", "rotary", Integers{&rotary}, "sizes of cos and sin (default: those of x but the first)", Part::kOption}});
  }
  std::vector<std::int64_t> rotary_lens(const TensorArgs& tensors) const {
    if (!rotary.empty() || tensors.sizes.size() == 1) return rotary.empty() ? tensors.sizes : rotary;
    return {tensors.sizes.begin() + 1, tensors.sizes.end()};
  }
};

}  // namespace polymio::driver
