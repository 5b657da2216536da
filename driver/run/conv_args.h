// The text form of a convolution problem: MIOpenDriver's flags, parsed to a plain struct and formatted back. Command
// lines, list files, test cases and report rows use it. Depends on the standard library and fmt only.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "driver/run/common_args.h"

namespace polymio::driver {

enum PadMode : int { kPadDefault = 0, kPadSame = 1, kPadValid = 2 };

// Every flag's value; the initial values are the defaults. After parse() the sizes of axes beyond
// spatial_dim (depth, and height in 1-D) hold their defaults, so equal problems compare equal.
struct ConvArgs : RunArgs {
  std::string base = "conv";

  std::int64_t spatial_dim = 2;
  std::int64_t batch = 100;
  std::int64_t in_channels = 3;
  std::int64_t in_d = 32, in_h = 32, in_w = 32;
  std::int64_t out_channels = 32;
  std::int64_t fil_d = 3, fil_h = 3, fil_w = 3;
  std::int64_t pad_d = 0, pad_h = 0, pad_w = 0;
  std::int64_t stride_d = 1, stride_h = 1, stride_w = 1;
  std::int64_t dilation_d = 1, dilation_h = 1, dilation_w = 1;
  std::int64_t output_pad_d = 0, output_pad_h = 0, output_pad_w = 0;
  std::int64_t groups = 1;
  int transpose = 0;
  int pad_mode = kPadDefault;
  std::int64_t directions = 0;                                     // bits of Direction; 0 = all three
  std::string in_layout, wei_layout, out_layout;                   // empty: NCW, NCHW or NCDHW by rank
  std::vector<std::int64_t> in_strides, wei_strides, out_strides;  // empty: packed in the layout
  int out_type = kNoType, second_type = kNoType;
  int in_cast = kNoType, wei_cast = kNoType, out_cast = kNoType;
  double alpha = 1, beta = 0;
  int math = 1;  // polymioMathMode_t's numbers
  std::int64_t deterministic = 0;
  int fp8_rounding = -1;  // -1: the descriptor's own default; 0 standard, 1 stochastic
  std::int64_t bias = 0;
  std::string fuse;  // "b" for a bias, then the number of an activation mode, 0 for none; empty: not fused

  std::int64_t wall = 0;
  double budget = 0;  // milliseconds of a find; 0: none
  std::int64_t print_conv = 1;
  std::int64_t dump_output = 0;
  std::string in_data, weights, dout_data, in_bias;
  std::string verification_cache;
  std::int64_t gpu_alloc = 0;
  std::int64_t tensor_vect = 0;
  std::int64_t vector_length = 1;
  std::int64_t pad_value = 0;

  std::string compare;
  bool all_solvers = false;
  std::string report, save;

  bool operator==(const ConvArgs&) const = default;
};

// conv, convfp16, ...
const Bases& conv_bases();

// The table of flags, in the order of the canonical text.
Flags conv_flags(ConvArgs& args);

// Completes and checks what the flags have set. Throws ArgError.
void check_args(ConvArgs& args);

// Parses the arguments after the program name: base argument, then flags. `defaults` supplies the values of flags not
// given. Throws ArgError.
ConvArgs parse(const std::vector<std::string>& arguments, const ConvArgs& defaults = ConvArgs());

// The arguments of a line of text, without a leading program name (ending in MIOpenDriver).
std::vector<std::string> split_line(std::string_view line);

// One line of text; a leading program name (ending in MIOpenDriver) is skipped. Throws ArgError.
ConvArgs parse_line(std::string_view line, const ConvArgs& defaults = ConvArgs());

// The canonical line of the whole struct: parse_line(to_line(a)) == a.
std::string to_line(const ConvArgs& args);

// The canonical line of the problem alone, for the given directions: no run control.
std::string problem_line(const ConvArgs& args, std::int64_t directions);

// The activation mode of --fuse; 0: none, -1: not a mode.
int fused_activation(const ConvArgs& args);

// The requested directions as bits; -F 0 becomes all three.
std::int64_t direction_mask(const ConvArgs& args);

// Lengths in N,C,[D],[H],W order. Throws ArgError when the groups do not divide the channels.
std::vector<std::int64_t> input_lens(const ConvArgs& args);
std::vector<std::int64_t> weight_lens(const ConvArgs& args);

// One value per spatial axis; pads already take --pad_mode into account.
std::vector<std::int64_t> pads(const ConvArgs& args);
std::vector<std::int64_t> strides(const ConvArgs& args);
std::vector<std::int64_t> dilations(const ConvArgs& args);
std::vector<std::int64_t> output_pads(const ConvArgs& args);

// Types of the three tensors for one direction: the base argument's, except for the written tensor (--out_type; int32
// with convint8) and the second tensor that the direction reads (--second_type).
struct TensorTypes {
  int x, w, y;
};
TensorTypes tensor_types(const ConvArgs& args, Direction direction);

}  // namespace polymio::driver
