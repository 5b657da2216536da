// Every flag of the driver.
// SPDX-License-Identifier: MIT
#include "driver/run/conv_flags.h"

namespace polymio::driver {
namespace {

constexpr Choice kModes[] = {{"conv", 0}, {"trans", 1}};
constexpr Choice kPadModes[] = {{"default", kPadDefault}, {"same", kPadSame}, {"valid", kPadValid}};
constexpr Choice kTypes[] = {{"int8", kInt8}, {"int32", kInt32},       {"float", kFloat}, {"double", kDouble},
                             {"half", kHalf}, {"bfloat16", kBFloat16}, {"fp8", kFloat8},  {"bfp8", kBFloat8}};
constexpr Choice kCastTypes[] = {
    {"fp8", kFloat8}, {"bfp8", kBFloat8}, {"-1", kNoType}, {"7", kFloat8}, {"8", kBFloat8}};
constexpr Choice kMathModes[] = {{"strict", 0}, {"accurate", 1}, {"tf32", 2}, {"any", 3}};
constexpr Choice kRoundings[] = {{"standard", 0}, {"stochastic", 1}};

constexpr std::int64_t kMaxInt = 2147483647;

using A = ConvArgs;
constexpr auto kShape = Part::kShape;
constexpr auto kOption = Part::kOption;
constexpr auto kRun = Part::kRun;

constexpr Flag kFlags[] = {
    {"_", "spatial_dim", kOption, -1, Number{&A::spatial_dim, 1, 3}, "spatial dimensions; 1-D uses the width flags"},
    {"n", "batchsize", kShape, -1, Number{&A::batch, 1, kMaxInt}, "batch size"},
    {"c", "in_channels", kShape, -1, Number{&A::in_channels, 1, kMaxInt}, "input channels"},
    {"!", "in_d", kShape, 0, Number{&A::in_d, 1, kMaxInt}, "input depth"},
    {"H", "in_h", kShape, 1, Number{&A::in_h, 1, kMaxInt}, "input height"},
    {"W", "in_w", kShape, 2, Number{&A::in_w, 1, kMaxInt}, "input width"},
    {"k", "out_channels", kShape, -1, Number{&A::out_channels, 1, kMaxInt}, "output channels (filters)"},
    {"@", "fil_d", kShape, 0, Number{&A::fil_d, 1, kMaxInt}, "filter depth"},
    {"y", "fil_h", kShape, 1, Number{&A::fil_h, 1, kMaxInt}, "filter height"},
    {"x", "fil_w", kShape, 2, Number{&A::fil_w, 1, kMaxInt}, "filter width"},
    {"$", "pad_d", kShape, 0, Number{&A::pad_d, 0, kMaxInt}, "zero padding, depth"},
    {"p", "pad_h", kShape, 1, Number{&A::pad_h, 0, kMaxInt}, "zero padding, height"},
    {"q", "pad_w", kShape, 2, Number{&A::pad_w, 0, kMaxInt}, "zero padding, width"},
    {"#", "conv_stride_d", kShape, 0, Number{&A::stride_d, 1, kMaxInt}, "stride, depth"},
    {"u", "conv_stride_h", kShape, 1, Number{&A::stride_h, 1, kMaxInt}, "stride, height"},
    {"v", "conv_stride_w", kShape, 2, Number{&A::stride_w, 1, kMaxInt}, "stride, width"},
    {"^", "dilation_d", kShape, 0, Number{&A::dilation_d, 1, kMaxInt}, "dilation, depth"},
    {"l", "dilation_h", kShape, 1, Number{&A::dilation_h, 1, kMaxInt}, "dilation, height"},
    {"j", "dilation_w", kShape, 2, Number{&A::dilation_w, 1, kMaxInt}, "dilation, width"},
    {"%", "trans_output_pad_d", kOption, 0, Number{&A::output_pad_d, 0, kMaxInt}, "output padding of -m trans, depth"},
    {"Y", "trans_output_pad_h", kOption, 1, Number{&A::output_pad_h, 0, kMaxInt}, "output padding of -m trans, height"},
    {"X", "trans_output_pad_w", kOption, 2, Number{&A::output_pad_w, 0, kMaxInt}, "output padding of -m trans, width"},
    {"g", "group_count", kShape, -1, Number{&A::groups, 1, kMaxInt}, "groups; as many as input channels = depthwise"},
    {"m", "mode", kShape, -1, Selection{&A::transpose, kModes}, "convolution or transposed convolution"},
    {"z", "pad_mode", kOption, -1, Selection{&A::pad_mode, kPadModes},
     "same: pads such that output = ceil(input / stride), up to the symmetry of pads; valid: "
     "no pads; default: the given pads"},
    {"I", "in_layout", kOption, -1, Layout{&A::in_layout},
     "input layout: NCW NWC NCHW NHWC NCDHW NDHWC, by rank (default NCW, NCHW, NCDHW)"},
    {"f", "fil_layout", kOption, -1, Layout{&A::wei_layout}, "filter layout, same names (N is the filter index)"},
    {"O", "out_layout", kOption, -1, Layout{&A::out_layout}, "output layout, same names"},
    {"", "in_strides", kOption, -1, List{&A::in_strides},
     "element strides N,C,[D],[H],W of the input; override the layout"},
    {"", "wei_strides", kOption, -1, List{&A::wei_strides}, "element strides of the filter"},
    {"", "out_strides", kOption, -1, List{&A::out_strides}, "element strides of the output"},
    {"", "out_type", kOption, -1, Selection{&A::out_type, kTypes},
     "type of the tensor that is written (default: int32 for convint8, else that of the base argument)"},
    {"", "second_type", kOption, -1, Selection{&A::second_type, kTypes},
     "type of the second tensor that is read: the filter, or the output gradient for -F 4"},
    {"U", "in_cast_type", kOption, -1, Selection{&A::in_cast, kCastTypes},
     "round the input to this type before multiplying"},
    {"R", "wei_cast_type", kOption, -1, Selection{&A::wei_cast, kCastTypes},
     "round the filter to this type before multiplying"},
    {"T", "out_cast_type", kOption, -1, Selection{&A::out_cast, kCastTypes},
     "round the output gradient to this type before multiplying"},
    {"", "alpha", kOption, -1, Real{&A::alpha}, "result = alpha * convolution + beta * old content"},
    {"", "beta", kOption, -1, Real{&A::beta}, "see --alpha"},
    {"", "math", kOption, -1, Selection{&A::math, kMathModes}, "least accurate arithmetic that may be used"},
    {"", "deterministic", kOption, -1, Number{&A::deterministic, 0, 1},
     "1: only solvers that give the same bits every time"},
    {"", "fp8_rounding", kOption, -1, Selection{&A::fp8_rounding, kRoundings},
     "rounding to 8-bit floats (default: the library's; standard with cast types)"},
    {"b", "bias", kOption, -1, Number{&A::bias, 0, 1}, "1: also run bias forward / backward"},
    {"", "fuse", kOption, -1, Text{&A::fuse},
     "fused epilogue: b for a bias, then an activation mode or 0; for tune, doctor and options"},
    {"F", "forw", kShape, -1, Number{&A::directions, 0, 7},
     "directions: sum of 1 forward, 2 backward data, 4 backward weights; 0 = all"},
    {"i", "iter", kRun, -1, Number{&A::iterations, 1, 1000000000}, "timed runs per direction"},
    {"V", "verify", kRun, -1, Number{&A::verify, 0, 2},
     "0 no; 1 compare with a double-precision evaluation (sampled above 4 GFLOP); 2 compare "
     "everything"},
    {"t", "time", kRun, -1, Number{&A::time, 0, 1}, "1: print algorithm, solution, time and rates"},
    {"w", "wall", kRun, -1, Number{&A::wall, 0, 2}, "1: wall-clock time; 2: after a warm-up run; needs -t 1"},
    {"s", "search", kRun, -1, Number{&A::search, 0, 1}, "1: exhaustive search while finding"},
    {"", "budget", kRun, -1, Real{&A::budget},
     "time limit of a find in milliseconds; 0: none; --explain lists what find skipped"},
    {"S", "solution", kRun, -1, Text{&A::solution},
     "negative: find; 0: best of immediate mode; a solution number or solver name: that one"},
    {"", "solver", kRun, -1, Text{&A::solution}, "same as --solution"},
    {"P", "printconv", kRun, -1, Number{&A::print_conv, 0, 1}, "1: describe the convolution"},
    {"o", "dump_output", kRun, -1, Number{&A::dump_output, 0, 1}, "1: write inputs and outputs to dump_*.bin"},
    {"d", "in_data", kRun, -1, Text{&A::in_data}, "raw file with the input's elements"},
    {"e", "weights", kRun, -1, Text{&A::weights}, "raw file with the filter's elements"},
    {"D", "dout_data", kRun, -1, Text{&A::dout_data}, "raw file with the output gradient's elements"},
    {"a", "in_bias", kRun, -1, Text{&A::in_bias}, "raw file with the bias"},
    {"C", "verification_cache", kRun, -1, Text{&A::verification_cache}, "folder that keeps computed reference results"},
    {"G", "gpualloc", kRun, -1, Number{&A::gpu_alloc, 0, 1}, "1: random data without verification"},
    {"Z", "tensor_vect", kRun, -1, Number{&A::tensor_vect, 0, 0}, "vectorised layouts; only 0"},
    {"L", "vector_length", kRun, -1, Number{&A::vector_length, 1, 1}, "vectorised layouts; only 1"},
    {"r", "pad_val", kRun, -1, Number{&A::pad_value, 0, 0}, "value of padding; only 0"},
    {"", "device", kRun, -1, Text{&A::device}, "cpu, cuda:0, ... (default: the library's choice)"},
    {"", "compare", kRun, -1, Text{&A::compare},
     "two devices, as in cpu,cuda:0: run on both, and compare times and results with each other"},
    {"", "json", kRun, -1, Switch{&A::json}, "one JSON object per direction instead of text"},
    {"", "explain", kRun, -1, Switch{&A::explain}, "list every solver: usable or why not, predicted and measured time"},
    {"", "all-solvers", kRun, -1, Switch{&A::all_solvers}, "run, time and verify every solution of immediate mode"},
    {"", "from-list", kRun, -1, Text{&A::from_list},
     "file with one problem per line in this syntax; '#' starts a comment"},
    {"", "report", kRun, -1, Text{&A::report}, "write an HTML report of the problems that were run"},
    {"", "baseline", kRun, -1, Text{&A::baseline}, "demo: earlier results (JSON); the find database must answer now"},
    {"h", "help", kRun, -1, Switch{&A::help}, "this text (also -?)"},
};

}  // namespace

std::span<const Flag> flags() { return kFlags; }

}  // namespace polymio::driver
