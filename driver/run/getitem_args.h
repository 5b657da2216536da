// The flags of the gradient of indexing.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>

#include "driver/run/shape_args.h"
#include "reference/getitem.h"

namespace polymio::driver {

struct GetitemArgs {
  DataType type = kFloat;
  std::string dinput = "128x128", doutput, indexs = "128", dims = "0", slices;
  std::int64_t offset = 0, outside = 0, directions = kBackwardData;

  Flags rows() {
    return {{"F", "forw", Integer{&directions, 0, 2, 2}, "2 backward, 0 the same", Part::kOption},
            {"I", "dinput", Text{&dinput, "SIZES"}, "sizes of dx, such as 128x64", Part::kShape},
            {"O", "doutput", Text{&doutput, "SIZES"}, "sizes of dy (default: those that follow)", Part::kOption},
            {"N", "indexs", Text{&indexs, "SIZES"}, "sizes of every index tensor", Part::kShape},
            {"D", "dims", Text{&dims, "LIST"}, "dimensions that are indexed, such as 0,1; - for none", Part::kShape},
            {"", "slices", Text{&slices, "LIST"}, "dimension,begin,end,step of every slice", Part::kOption},
            {"f", "offset", Integer{&offset, 0, kMaxInt}, "of the slices in dx, in elements", Part::kOption},
            {"", "outside", Integer{&outside, 0, 1}, "1: some indices are outside of dx", Part::kOption}};
  }

  // Throws ArgError.
  reference::Getitem problem() {
    const Flags flags = rows();
    const auto element = static_cast<reference::Type>(type);
    reference::Getitem p;
    p.dx = shape_of(flags[1], element);
    if (dims != "-") p.dims = numbers_of(dims, flags[4], ',', 0);
    for (const std::int64_t dim : p.dims) {
      const bool follows = dim == p.dims[0] + static_cast<std::int64_t>(p.indices.size());
      if (dim >= static_cast<std::int64_t>(p.dx.lens.size()) || !follows)
        refuse_value(flags[4], dims, "dimensions of dx that follow each other");
      p.indices.push_back(shape_of(flags[3], reference::Type::kInt32));
    }
    const auto numbers = slices.empty() ? std::vector<std::int64_t>() : numbers_of(slices, flags[5], ',', 0);
    if (numbers.size() % 4 != 0) refuse_value(flags[5], slices, "four numbers per slice");
    for (std::size_t i = 0; i < numbers.size(); i += 4) {
      p.slices.push_back({numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3]});
      if (numbers[i] >= static_cast<std::int64_t>(p.dx.lens.size()) || numbers[i + 3] == 0 ||
          numbers[i + 1] >= std::min(numbers[i + 2], p.dx.lens[static_cast<std::size_t>(numbers[i])]))
        refuse_value(flags[5], slices, "slices of dx that are not empty");
    }
    p.offset = offset;
    p.dy = doutput.empty() ? reference::Tensor(element, p.selected()) : shape_of(flags[2], element);
    if (p.dy.lens != p.selected()) refuse_value(flags[2], doutput, "the sizes that the other flags give");
    return p;
  }
};

}  // namespace polymio::driver
