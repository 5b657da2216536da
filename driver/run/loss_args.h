// The flags of losses.
// SPDX-License-Identifier: MIT
#pragma once

#include "driver/run/tensor_args.h"

namespace polymio::driver {

inline constexpr Choice kReductions[] = {{"none", 0}, {"sum", 1}, {"mean", 2}};

struct SoftMarginArgs {
  static constexpr std::string_view kName = "softmarginloss";
  int reduction = 0;
  std::int64_t contiguous = 1;

  static TensorArgs tensors() {
    TensorArgs args;
    args.sizes = {4, 25, 4, 25};
    return args;
  }
  // The rows, with those of sizes and strides, which `tensors` gets.
  Flags rows(TensorArgs& tensors) {
    return tensors.list_rows(
        {"D", "dim", Integers{&tensors.sizes}, "sizes of the input", Part::kShape},
        {{"R", "reduce", Name{&reduction, kReductions}, "none, sum or mean", Part::kShape},
         {"S", "stride", Integers{&tensors.in_strides}, "strides of the input; as --in_strides", Part::kAlias},
         {"C", "contiguous", Integer{&contiguous, 0, 1}, "0: the input has gaps, if no strides are given",
          Part::kOption}});
  }
  // Strides of the input.
  std::vector<std::int64_t> x_strides(const TensorArgs& tensors) const {
    std::vector<std::int64_t> strides = tensors.x_strides();
    if (contiguous == 0 && tensors.in_strides.empty()) strides[0] *= 2;
    return strides;
  }
};

struct MultiMarginArgs {
  static constexpr std::string_view kName = "multimarginloss";
  int reduction = 0;
  std::int64_t contiguous = 1, power = 1;
  double margin = 1;

  static TensorArgs tensors() {
    TensorArgs args;
    args.sizes = {41, 4};
    return args;
  }
  Flags rows(TensorArgs& tensors) {
    return tensors.list_rows(
        {"D", "dim", Integers{&tensors.sizes}, "rows and classes of the input", Part::kShape},
        {{"R", "reduce", Name{&reduction, kReductions}, "none, sum or mean", Part::kShape},
         {"C", "contiguous", Integer{&contiguous, 0, 1}, "0: input, target and weight have gaps", Part::kOption},
         {"", "p", Integer{&power, 1, 2}, "exponent", Part::kOption},
         {"", "margin", Real{&margin}, "margin", Part::kOption}});
  }
  // Strides of the input, and of the target and the weight.
  std::vector<std::int64_t> x_strides(const TensorArgs& tensors) const {
    std::vector<std::int64_t> strides = tensors.x_strides();
    if (contiguous == 0 && tensors.in_strides.empty()) strides[0] *= 2;
    return strides;
  }
  std::vector<std::int64_t> list_strides() const { return {contiguous == 0 ? 2 : 1}; }
};

}  // namespace polymio::driver
