// The flags of concatenation.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>

#include "driver/run/shape_args.h"

namespace polymio::driver {

struct CatArgs {
  DataType type = kFloat;
  std::array<std::string, 8> inputs;
  std::string output_strides;
  std::int64_t dim = 1, directions = kForward;

  Flags rows() {
    static constexpr const char* kNames[] = {"input1", "input2", "input3", "input4",
                                             "input5", "input6", "input7", "input8"};
    static constexpr const char* kLetters[] = {"1", "2", "3", "4", "5", "6", "7", "8"};
    Flags all{{"F", "forw", Integer{&directions, 0, 1}, "1 forward, 0 the same", Part::kOption},
              {"d", "dim", Integer{&dim, -8, 7}, "dimension of the concatenation", Part::kShape}};
    for (std::size_t i = 0; i < inputs.size(); ++i)
      all.push_back({kLetters[i], kNames[i], Text{&inputs[i], "SIZES"},
                     i < 2 ? "sizes of an input, such as 2x32x128 (without any: 2x32x128x128)"
                           : "sizes of an input, such as 2x32x128",
                     Part::kOption});
    all.push_back({"", "output_strides", Text{&output_strides, "STRIDES"}, "of y, such as 64x1", Part::kOption});
    return all;
  }
  std::vector<reference::Tensor> tensors() {
    if (std::ranges::all_of(inputs, &std::string::empty)) inputs[0] = inputs[1] = "2x32x128x128";
    std::vector<reference::Tensor> all;
    const Flags flags = rows();
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (!inputs[i].empty()) all.push_back(shape_of(flags[2 + i], static_cast<reference::Type>(type)));
    return all;
  }
  std::size_t axis(const std::vector<reference::Tensor>& all) const {
    const auto rank = static_cast<std::int64_t>(all[0].lens.size());
    if (dim < -rank || dim >= rank) throw ArgError("-d --dim: no dimension of the inputs");
    return static_cast<std::size_t>(dim < 0 ? dim + rank : dim);
  }
  // Throws ArgError for sizes that do not fit together.
  reference::Tensor output() {
    const std::vector<reference::Tensor> all = tensors();
    const std::size_t d = axis(all);
    std::vector<std::int64_t> lens = all[0].lens;
    for (std::size_t i = 1; i < all.size(); ++i) {
      std::vector<std::int64_t> others = all[i].lens;
      if (others.size() == lens.size()) others[d] = lens[d];
      if (others != lens) throw ArgError("the sizes of the inputs may differ in --dim only");
      lens[d] += all[i].lens[d];
    }
    if (output_strides.empty()) return {static_cast<reference::Type>(type), lens};
    const Flags flags = rows();
    const std::vector<std::int64_t> strides = numbers_of(output_strides, flags.back(), 'x', 0);
    if (strides.size() != lens.size()) refuse_value(flags.back(), output_strides, "a stride per dimension");
    return {static_cast<reference::Type>(type), lens, strides};
  }
};

}  // namespace polymio::driver
