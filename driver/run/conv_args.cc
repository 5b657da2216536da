// Parsing and the canonical text iterate over the table of flags.
// SPDX-License-Identifier: MIT
#include "driver/run/conv_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "driver/run/activ_args.h"

namespace polymio::driver {
namespace {

// Pad of one axis for --pad_mode same: half of the positions that ceil(in / stride) outputs lack, rounded down.
std::int64_t same_pad(std::int64_t in, std::int64_t filter, std::int64_t stride) {
  const std::int64_t last = in % stride == 0 ? stride : in % stride;
  return std::max<std::int64_t>(filter - last, 0) / 2;
}

// Other problems keep the given pads, as in MIOpen's driver.
bool has_pad_mode(const ConvArgs& args) {
  const auto all_one = [](const std::vector<std::int64_t>& values) {
    return std::ranges::all_of(values, [](std::int64_t value) { return value == 1; });
  };
  return args.pad_mode != kPadDefault && args.transpose == 0 &&
         (all_one(dilations(args)) || all_one(last_axes(args.spatial_dim, args.fil_d, args.fil_h, args.fil_w)));
}

std::string write_line(ConvArgs args, bool run) {
  ConvArgs defaults;
  return args.base + flags_text(conv_flags(args), conv_flags(defaults), args.spatial_dim, run);
}

}  // namespace

const Bases& conv_bases() {
  static constexpr DataType kTypes[] = {kFloat,       kHalf,         kBFloat16,   kInt8,  kFloat8Fnuz,
                                        kBFloat8Fnuz, kFloat8E4m3fn, kFloat8E5m2, kDouble};
  static constexpr Bases kBases{"conv", kTypes};
  return kBases;
}

void check_args(ConvArgs& args) {
  ConvArgs defaults;
  const Flags flags = conv_flags(args);
  reset_unused_axes(flags, conv_flags(defaults), args.spatial_dim);
  for (const char* name : {"in_layout", "fil_layout", "out_layout"}) {
    check_layout(find_row(flags, name), args.spatial_dim);
  }
  for (const char* name : {"in_strides", "wei_strides", "out_strides"}) {
    check_strides(find_row(flags, name), args.spatial_dim);
  }
  if (fused_activation(args) < 0) {
    refuse_value(find_row(flags, "fuse"), args.fuse,
                 "b (bias), n (batch norm), z (residual), as far as there are any, then 0 to 10 (activation) or 11 "
                 "(swish): b0, bn3");
  }
  if (args.wall > 0 && args.time == 0) throw ArgError("-w --wall: needs -t 1");
  input_lens(args);
  weight_lens(args);
}

ConvArgs parse(const std::vector<std::string>& arguments, const ConvArgs& defaults) {
  ConvArgs args = defaults;
  const std::string allowed = fmt::format("{}", fmt::join(conv_bases().names(), " "));
  if (arguments.empty()) throw ArgError(fmt::format("no base argument, allowed: {}", allowed));
  args.base = arguments[0];
  if (conv_bases().type_of(args.base) == kNoType) {
    throw ArgError(fmt::format("Incorrect BaseArg '{}', allowed: {}", args.base, allowed));
  }
  parse_flags({args.base, "", ""}, conv_flags(args), std::span(arguments).subspan(1));
  check_args(args);
  return args;
}

std::vector<std::string> split_line(std::string_view line) {
  std::istringstream stream{std::string(line)};
  std::vector<std::string> arguments;
  for (std::string argument; stream >> argument;) arguments.push_back(argument);
  if (!arguments.empty() && arguments[0].ends_with("MIOpenDriver")) arguments.erase(arguments.begin());
  return arguments;
}

ConvArgs parse_line(std::string_view line, const ConvArgs& defaults) { return parse(split_line(line), defaults); }

std::string to_line(const ConvArgs& args) { return write_line(args, true); }

std::string problem_line(const ConvArgs& args, std::int64_t directions) {
  ConvArgs copy = args;
  copy.directions = directions;
  return write_line(std::move(copy), false);
}

int fused_activation(const ConvArgs& args) {
  if (args.fuse.empty()) return 0;
  std::string_view text = args.fuse;
  for (const char part : {'b', 'n', 'z'})
    if (text.starts_with(part)) text.remove_prefix(1);
  constexpr int kSwish = 11;  // graphs fuse it
  for (int mode = 0; mode <= kSwish; ++mode) {
    if (text == std::to_string(mode)) return mode;
  }
  return -1;
}

std::int64_t direction_mask(const ConvArgs& args) { return args.directions == 0 ? 7 : args.directions; }

std::vector<std::int64_t> input_lens(const ConvArgs& args) {
  std::vector<std::int64_t> lens = {args.batch, args.in_channels};
  for (std::int64_t size : last_axes(args.spatial_dim, args.in_d, args.in_h, args.in_w)) lens.push_back(size);
  return lens;
}

std::vector<std::int64_t> weight_lens(const ConvArgs& args) {
  if (args.in_channels % args.groups != 0 || args.out_channels % args.groups != 0) {
    throw ArgError(
        fmt::format("-g --group_count: bad value '{}', allowed: a divisor of {} input and {} output channels",
                    args.groups, args.in_channels, args.out_channels));
  }
  std::vector<std::int64_t> lens = {args.out_channels, args.in_channels / args.groups};
  if (args.transpose != 0) lens = {args.in_channels, args.out_channels / args.groups};
  for (std::int64_t size : last_axes(args.spatial_dim, args.fil_d, args.fil_h, args.fil_w)) lens.push_back(size);
  return lens;
}

std::vector<std::int64_t> pads(const ConvArgs& args) {
  std::vector<std::int64_t> pad = last_axes(args.spatial_dim, args.pad_d, args.pad_h, args.pad_w);
  if (!has_pad_mode(args)) return pad;
  const auto in = input_lens(args);
  const auto filter = weight_lens(args);
  const auto stride = strides(args);
  for (std::size_t i = 0; i < pad.size(); ++i) {
    pad[i] = args.pad_mode == kPadValid ? 0 : same_pad(in[i + 2], filter[i + 2], stride[i]);
  }
  return pad;
}

std::vector<std::int64_t> strides(const ConvArgs& args) {
  return last_axes(args.spatial_dim, args.stride_d, args.stride_h, args.stride_w);
}

std::vector<std::int64_t> dilations(const ConvArgs& args) {
  return last_axes(args.spatial_dim, args.dilation_d, args.dilation_h, args.dilation_w);
}

std::vector<std::int64_t> output_pads(const ConvArgs& args) {
  return last_axes(args.spatial_dim, args.output_pad_d, args.output_pad_h, args.output_pad_w);
}

TensorTypes tensor_types(const ConvArgs& args, Direction direction) {
  const int type = conv_bases().type_of(args.base);
  TensorTypes types{type, type, type};
  int& written = direction == kForward ? types.y : direction == kBackwardData ? types.x : types.w;
  int& second = direction == kBackwardWeights ? types.y : types.w;
  if (type == kInt8) written = kInt32;
  if (args.out_type != kNoType) written = args.out_type;
  if (args.second_type != kNoType) second = args.second_type;
  return types;
}

}  // namespace polymio::driver
