// The library's internal problems from driver lines, for benchmarks and tests of internals.
// SPDX-License-Identifier: MIT
#pragma once
#include "driver/run/conv_args.h"
#include "primitives/convolution/convolution.h"

namespace polymio {

/// The convolution of one direction of a line; throws driver::ArgError for transposed convolutions.
inline convolution::Problem problem_of(const driver::ConvArgs& args, convolution::Direction direction) {
  if (args.transpose != 0) throw driver::ArgError("-m trans: bad value, allowed: conv");
  convolution::Problem p;
  p.direction = direction;
  const auto x = driver::input_lens(args), w = driver::weight_lens(args);
  const auto pads = driver::pads(args), strides = driver::strides(args), dilations = driver::dilations(args);
  std::vector<std::int64_t> y{x[0], w[0]};
  p.geometry.spatial = static_cast<int>(pads.size());
  p.geometry.groups = args.groups;
  for (std::size_t i = 0; i < pads.size(); ++i) {
    p.geometry.pad[i] = pads[i];
    p.geometry.stride[i] = strides[i];
    p.geometry.dilation[i] = dilations[i];
    y.push_back(convolution::forward_size(x[i + 2], w[i + 2], pads[i], strides[i], dilations[i]));
  }
  const auto types = driver::tensor_types(args, static_cast<driver::Direction>(1 << static_cast<int>(direction)));
  const auto tensor = [](int type, const auto& lens, const std::string& layout, const auto& given) {
    return make_tensor(static_cast<DataType>(type), lens, driver::tensor_strides(lens, layout, given));
  };
  p.x = tensor(types.x, x, args.in_layout, args.in_strides);
  p.w = tensor(types.w, w, args.wei_layout, args.wei_strides);
  p.y = tensor(types.y, y, args.out_layout, args.out_strides);
  convolution::validate(p);
  return p;
}

/// The problem of a database key, which is a driver line with one direction.
inline convolution::Problem problem_of(const std::string& key) {
  const driver::ConvArgs args = driver::parse_line(key);
  int direction = 0;
  while ((driver::direction_mask(args) >> direction & 1) == 0) ++direction;
  return problem_of(args, static_cast<convolution::Direction>(direction));
}

}  // namespace polymio
