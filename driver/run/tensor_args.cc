// SPDX-License-Identifier: MIT
#include "driver/run/tensor_args.h"

#include <fmt/format.h>

#include <algorithm>

namespace polymio::driver {

Flags TensorArgs::rows(const Flags& own) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  constexpr auto kShape = Part::kShape;
  constexpr auto kOption = Part::kOption;
  Flags all = {
      {"_", "spatial_dim", Integer{&spatial_dim, 0, 3}, "spatial dimensions; 1-D uses the width flags", kOption},
      {"n", "batchsize", Integer{&batch, 1, kMost}, "batch size", kShape},
      {"c", "in_channels", Integer{&channels, 1, kMost}, "channels", kShape},
      {"!", "in_d", Integer{&in_d, 1, kMost}, "depth", kShape, 0},
      {"H", "in_h", Integer{&in_h, 1, kMost}, "height", kShape, 1},
      {"W", "in_w", Integer{&in_w, 1, kMost}, "width", kShape, 2},
  };
  const Flags layouts = {
      {"I", "in_layout", Layout{&in_layout}, "of x and dx, such as NCHW or NHWC (default: channels first)", kOption},
      {"O", "out_layout", Layout{&out_layout}, "of y and dy", kOption},
      {"", "in_strides", Integers{&in_strides}, "element strides N,C,[D],[H],W of x; override the layout", kOption},
      {"", "out_strides", Integers{&out_strides}, "element strides of y", kOption},
      {"", "din_strides", Integers{&din_strides}, "element strides of dx (default: those of x)", kOption},
      {"", "dout_strides", Integers{&dout_strides}, "element strides of dy (default: those of y)", kOption},
  };
  all.insert(all.end(), own.begin(), own.end());
  if (std::none_of(own.begin(), own.end(), [](const Flag& flag) { return flag.name == "forw"; }))
    all.push_back({"F", "forw", Integer{&directions, 0, 3}, "1 forward, 2 backward, 0 both", kShape});
  all.insert(all.end(), layouts.begin(), layouts.end());
  return all;
}

Flags TensorArgs::list_rows(const Flag& list, const Flags& own) {
  Flags all = {list};
  all.insert(all.end(), own.begin(), own.end());
  for (Flag flag : rows({})) {
    if (flag.name == "in_strides") flag.help = "element strides of x, one per dimension";
    if (flag.name == "forw" || flag.name.ends_with("_strides")) all.push_back(flag);
  }
  return all;
}

Flags TensorArgs::with_scalars(Flags own) {
  own.push_back({"", "scale_alpha", Real{&scale}, "result = scale_alpha * f + scale_beta * result", Part::kOption});
  own.push_back({"", "scale_beta", Real{&keep}, "see --scale_alpha", Part::kOption});
  return own;
}

void TensorArgs::check(const Flags& all, const Flags& defaults) const {
  if (!sizes.empty()) {
    for (const char* name : {"in_strides", "out_strides", "din_strides", "dout_strides"}) {
      const Flag& flag = find_row(all, name);
      const std::size_t given = std::get<Integers>(flag.variable).variable->size();
      if (given != 0 && given != sizes.size()) {
        refuse_value(flag, value_text(flag), fmt::format("{} strides, one per dimension", sizes.size()));
      }
    }
    return;
  }
  reset_unused_axes(all, defaults, spatial_dim);
  for (const char* name : {"in_layout", "out_layout"}) check_layout(find_row(all, name), spatial_dim);
  for (const char* name : {"in_strides", "out_strides", "din_strides", "dout_strides"}) {
    check_strides(find_row(all, name), spatial_dim);
  }
}

std::vector<std::int64_t> TensorArgs::lens() const {
  if (!sizes.empty()) return sizes;
  std::vector<std::int64_t> all = {batch, channels};
  for (const std::int64_t size : last_axes(spatial_dim, in_d, in_h, in_w)) all.push_back(size);
  return all;
}

}  // namespace polymio::driver
