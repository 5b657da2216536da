// The flags of convolutions.
// SPDX-License-Identifier: MIT
#include "driver/run/conv_args.h"

namespace polymio::driver {
namespace {

constexpr auto kShape = Part::kShape;
constexpr auto kOption = Part::kOption;

constexpr Choice kModes[] = {{"conv", 0}, {"trans", 1}};
constexpr Choice kPadModes[] = {{"default", kPadDefault}, {"same", kPadSame}, {"valid", kPadValid}};
constexpr Choice kTypes[] = {{"int8", kInt8},          {"int32", kInt32},      {"float", kFloat},
                             {"double", kDouble},      {"half", kHalf},        {"bfloat16", kBFloat16},
                             {"fp8", kFloat8Fnuz},     {"bfp8", kBFloat8Fnuz}, {"fp8_e4m3fn", kFloat8E4m3fn},
                             {"fp8_e5m2", kFloat8E5m2}};
constexpr Choice kCastTypes[] = {{"fp8", kFloat8Fnuz},      {"bfp8", kBFloat8Fnuz}, {"fp8_e4m3fn", kFloat8E4m3fn},
                                 {"fp8_e5m2", kFloat8E5m2}, {"-1", kNoType},        {"7", kFloat8Fnuz},
                                 {"8", kBFloat8Fnuz}};
constexpr Choice kMathModes[] = {{"strict", 0}, {"accurate", 1}, {"tf32", 2}, {"any", 3}};
constexpr Choice kRoundings[] = {{"standard", 0}, {"stochastic", 1}};

Flags shape_flags(ConvArgs& a) {
  return {
      {"_", "spatial_dim", Integer{&a.spatial_dim, 1, 3}, "spatial dimensions; 1-D uses the width flags", kOption},
      {"n", "batchsize", Integer{&a.batch, 1, kMaxInt}, "batch size", kShape},
      {"c", "in_channels", Integer{&a.in_channels, 1, kMaxInt}, "input channels", kShape},
      {"!", "in_d", Integer{&a.in_d, 1, kMaxInt}, "input depth", kShape, 0},
      {"H", "in_h", Integer{&a.in_h, 1, kMaxInt}, "input height", kShape, 1},
      {"W", "in_w", Integer{&a.in_w, 1, kMaxInt}, "input width", kShape, 2},
      {"k", "out_channels", Integer{&a.out_channels, 1, kMaxInt}, "output channels (filters)", kShape},
      {"@", "fil_d", Integer{&a.fil_d, 1, kMaxInt}, "filter depth", kShape, 0},
      {"y", "fil_h", Integer{&a.fil_h, 1, kMaxInt}, "filter height", kShape, 1},
      {"x", "fil_w", Integer{&a.fil_w, 1, kMaxInt}, "filter width", kShape, 2},
      {"$", "pad_d", Integer{&a.pad_d, 0, kMaxInt}, "zero padding, depth", kShape, 0},
      {"p", "pad_h", Integer{&a.pad_h, 0, kMaxInt}, "zero padding, height", kShape, 1},
      {"q", "pad_w", Integer{&a.pad_w, 0, kMaxInt}, "zero padding, width", kShape, 2},
      {"#", "conv_stride_d", Integer{&a.stride_d, 1, kMaxInt}, "stride, depth", kShape, 0},
      {"u", "conv_stride_h", Integer{&a.stride_h, 1, kMaxInt}, "stride, height", kShape, 1},
      {"v", "conv_stride_w", Integer{&a.stride_w, 1, kMaxInt}, "stride, width", kShape, 2},
      {"^", "dilation_d", Integer{&a.dilation_d, 1, kMaxInt}, "dilation, depth", kShape, 0},
      {"l", "dilation_h", Integer{&a.dilation_h, 1, kMaxInt}, "dilation, height", kShape, 1},
      {"j", "dilation_w", Integer{&a.dilation_w, 1, kMaxInt}, "dilation, width", kShape, 2},
      {"%", "trans_output_pad_d", Integer{&a.output_pad_d, 0, kMaxInt}, "output padding of -m trans, depth", kOption,
       0},
      {"Y", "trans_output_pad_h", Integer{&a.output_pad_h, 0, kMaxInt}, "output padding of -m trans, height", kOption,
       1},
      {"X", "trans_output_pad_w", Integer{&a.output_pad_w, 0, kMaxInt}, "output padding of -m trans, width", kOption,
       2},
      {"g", "group_count", Integer{&a.groups, 1, kMaxInt}, "groups; as many as input channels = depthwise", kShape},
      {"m", "mode", Name{&a.transpose, kModes}, "convolution or transposed convolution", kShape},
  };
}

Flags option_flags(ConvArgs& a) {
  return {
      {"z", "pad_mode", Name{&a.pad_mode, kPadModes},
       "same: half of the padding that gives output = ceil(input / stride), rounded down; valid: no pads; default: "
       "the given pads, also kept with -m trans and with dilations of a filter larger than 1",
       kOption},
      {"", "pmode", Name{&a.pad_mode, kPadModes}, "same as --pad_mode", Part::kAlias},
      {"I", "in_layout", Layout{&a.in_layout},
       "input layout: NCW NWC NCHW NHWC NCDHW NDHWC, by rank (default NCW, NCHW, NCDHW)", kOption},
      {"f", "fil_layout", Layout{&a.wei_layout}, "filter layout, same names (N is the filter index)", kOption},
      {"O", "out_layout", Layout{&a.out_layout}, "output layout, same names", kOption},
      {"", "in_strides", Integers{&a.in_strides}, "element strides N,C,[D],[H],W of the input; override the layout",
       kOption},
      {"", "wei_strides", Integers{&a.wei_strides}, "element strides of the filter", kOption},
      {"", "out_strides", Integers{&a.out_strides}, "element strides of the output", kOption},
      {"", "out_type", Name{&a.out_type, kTypes},
       "type of the tensor that is written (default: int32 for convint8, else that of the base argument)", kOption},
      {"", "second_type", Name{&a.second_type, kTypes},
       "type of the second tensor that is read: the filter, or the output gradient for -F 4", kOption},
      {"U", "in_cast_type", Name{&a.in_cast, kCastTypes}, "round the input to this type before multiplying", kOption},
      {"R", "wei_cast_type", Name{&a.wei_cast, kCastTypes}, "round the filter to this type before multiplying",
       kOption},
      {"T", "out_cast_type", Name{&a.out_cast, kCastTypes}, "round the output gradient to this type before multiplying",
       kOption},
      {"", "alpha", Real{&a.alpha}, "result = alpha * convolution + beta * old content", kOption},
      {"", "beta", Real{&a.beta}, "see --alpha", kOption},
      {"", "math", Name{&a.math, kMathModes}, "least accurate arithmetic that may be used", kOption},
      {"", "deterministic", Integer{&a.deterministic, 0, 1}, "1: only solvers that give the same bits every time",
       kOption},
      {"", "fp8_rounding", Name{&a.fp8_rounding, kRoundings},
       "rounding to 8-bit floats (default: the library's; standard with cast types)", kOption},
      {"b", "bias", Integer{&a.bias, 0, 1}, "1: also run bias forward / backward", kOption},
      {"", "fuse", Text{&a.fuse, "EPILOGUE"},
       "fused epilogue: b for a bias, n for a batch norm, then an activation mode or 0; for tune, doctor and options",
       kOption},
      {"F", "forw", Integer{&a.directions, 0, 7},
       "directions: sum of 1 forward, 2 backward data, 4 backward weights; 0 = all", kShape},
  };
}

Flags own_run_flags(ConvArgs& a) {
  return {
      {"w", "wall", Integer{&a.wall, 0, 2}, "1: wall-clock time; 2: after a warm-up run; needs -t 1"},
      {"", "budget", Real{&a.budget},
       "time limit of a find in milliseconds; 0: none; --explain lists what find skipped"},
      {"P", "printconv", Integer{&a.print_conv, 0, 1}, "1: describe the convolution"},
      {"o", "dump_output", Integer{&a.dump_output, 0, 1}, "1: write inputs and outputs to dump_*.bin"},
      {"d", "in_data", Text{&a.in_data, "FILE"}, "raw file with the input's elements"},
      {"e", "weights", Text{&a.weights, "FILE"}, "raw file with the filter's elements"},
      {"D", "dout_data", Text{&a.dout_data, "FILE"}, "raw file with the output gradient's elements"},
      {"a", "in_bias", Text{&a.in_bias, "FILE"}, "raw file with the bias"},
      {"C", "verification_cache", Text{&a.verification_cache, "FOLDER"},
       "folder that keeps computed reference results"},
      {"G", "gpualloc", Integer{&a.gpu_alloc, 0, 1}, "1: random data without verification"},
      {"Z", "tensor_vect", Integer{&a.tensor_vect, 0, 0}, "vectorised layouts; only 0"},
      {"L", "vector_length", Integer{&a.vector_length, 1, 1}, "vectorised layouts; only 1"},
      {"r", "pad_val", Integer{&a.pad_value, 0, 0}, "value of padding; only 0"},
      {"", "compare", Text{&a.compare, "DEVICE,DEVICE"},
       "two devices, as in cpu,cuda:0: run on both, and compare times and results with each other"},
      {"", "all-solvers", Switch{&a.all_solvers}, "run, time and verify every solution of immediate mode"},
      {"", "report", Text{&a.report, "FILE"}, "write an HTML report of the problems that were run"},
      {"", "save", Text{&a.save, "FILE"}, "write the run as JSON, for 'MIOpenDriver report'"},
  };
}

}  // namespace

Flags conv_flags(ConvArgs& args) {
  Flags all = shape_flags(args);
  for (const Flags& more : {option_flags(args), run_flags(args), own_run_flags(args)})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace polymio::driver
