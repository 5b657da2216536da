// Parsing, --help and the canonical text all iterate over the table of flags.
// SPDX-License-Identifier: MIT
#include "driver/run/conv_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <sstream>

#include "driver/run/conv_flags.h"

namespace polymio::driver {
namespace {

// "-n", or "--name" when the flag has no letter or one that is special to shells.
std::string spelling(const Flag& flag) {
  const bool plain = !flag.letter.empty() && std::isalpha(static_cast<unsigned char>(flag.letter[0])) != 0;
  return plain ? fmt::format("-{}", flag.letter) : fmt::format("--{}", flag.name);
}

[[noreturn]] void fail_value(const Flag& flag, std::string_view value, const std::string& allowed) {
  const std::string letter = flag.letter.empty() ? "" : fmt::format("-{} ", flag.letter);
  throw ArgError(fmt::format("{}--{}: bad value '{}', allowed: {}", letter, flag.name, value, allowed));
}

template <class T>
bool read_number(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  return result.ec == std::errc() && result.ptr == end;
}

std::string allowed_names(std::span<const Choice> choices) {
  std::string names;
  for (const Choice& choice : choices) names += fmt::format("{}{}", names.empty() ? "" : " ", choice.name);
  return names;
}

struct Assign {
  const Flag& flag;
  std::string_view text;
  ConvArgs& args;

  void operator()(const Number& field) const {
    std::int64_t value = 0;
    if (!read_number(text, value) || value < field.low || value > field.high) {
      fail_value(flag, text,
                 field.low == field.high ? fmt::format("{}", field.low)
                                         : fmt::format("an integer from {} to {}", field.low, field.high));
    }
    args.*field.member = value;
  }
  void operator()(const Real& field) const {
    double value = 0;
    if (!read_number(text, value) || !(value - value == 0)) fail_value(flag, text, "a finite number");
    args.*field.member = value;
  }
  void operator()(const Text& field) const {
    if (text.empty()) fail_value(flag, text, "a non-empty text");
    args.*field.member = text;
  }
  void operator()(const Layout& field) const {
    std::string upper(text);
    for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    args.*field.member = upper;
  }
  void operator()(const Selection& field) const {
    for (const Choice& choice : field.choices) {
      if (choice.name == text) {
        args.*field.member = choice.value;
        return;
      }
    }
    fail_value(flag, text, allowed_names(field.choices));
  }
  void operator()(const List& field) const {
    std::vector<std::int64_t> values;
    std::string_view rest = text;
    while (true) {
      const std::size_t comma = rest.find(',');
      std::int64_t value = 0;
      if (!read_number(rest.substr(0, comma), value) || value < 1) {
        fail_value(flag, text, "positive integers separated by commas, one per dimension");
      }
      values.push_back(value);
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
    args.*field.member = std::move(values);
  }
  void operator()(const Switch& field) const { args.*field.member = true; }
};

// The value as text; empty for an empty text, an empty list, a switch that is off and an unset selection.
struct Show {
  const ConvArgs& args;

  std::string operator()(const Number& field) const { return fmt::format("{}", args.*field.member); }
  std::string operator()(const Real& field) const { return fmt::format("{}", args.*field.member); }
  std::string operator()(const Text& field) const { return args.*field.member; }
  std::string operator()(const Layout& field) const { return args.*field.member; }
  std::string operator()(const Selection& field) const {
    for (const Choice& choice : field.choices) {
      if (choice.value == args.*field.member) return std::string(choice.name);
    }
    return "";
  }
  std::string operator()(const List& field) const { return fmt::format("{}", fmt::join(args.*field.member, ",")); }
  std::string operator()(const Switch& field) const { return args.*field.member ? "on" : ""; }
};

const Flag& find_flag(std::string_view argument) {
  if (argument == "-?") argument = "-h";
  for (const Flag& flag : flags()) {
    if (argument.starts_with("--") && argument.substr(2) == flag.name) return flag;
    if (!flag.letter.empty() && argument.size() == 2 && argument[0] == '-' && argument.substr(1) == flag.letter)
      return flag;
  }
  throw ArgError(fmt::format("unknown flag '{}'; 'MIOpenDriver conv --help' lists the allowed flags", argument));
}

void check_layout(const char* flag, const std::string& layout, std::int64_t spatial_dim) {
  static constexpr std::string_view kFirst[] = {"NCW", "NCHW", "NCDHW"};
  static constexpr std::string_view kLast[] = {"NWC", "NHWC", "NDHWC"};
  const auto index = static_cast<std::size_t>(spatial_dim - 1);
  if (layout.empty() || layout == kFirst[index] || layout == kLast[index]) return;
  throw ArgError(fmt::format("{}: bad value '{}', allowed with --spatial_dim {}: {} {}", flag, layout, spatial_dim,
                             kFirst[index], kLast[index]));
}

void check_strides(const char* flag, const std::vector<std::int64_t>& given, std::int64_t spatial_dim) {
  const auto rank = static_cast<std::size_t>(spatial_dim + 2);
  if (given.empty() || given.size() == rank) return;
  throw ArgError(fmt::format("{}: bad value '{}', allowed with --spatial_dim {}: {} strides", flag,
                             fmt::join(given, ","), spatial_dim, rank));
}

bool is_unused(const Flag& flag, std::int64_t spatial_dim) { return flag.axis >= 0 && flag.axis < 3 - spatial_dim; }

void normalise(ConvArgs& args) {
  static const ConvArgs defaults;
  for (const Flag& flag : flags()) {
    if (!is_unused(flag, args.spatial_dim)) continue;
    const auto member = std::get<Number>(flag.field).member;
    args.*member = defaults.*member;
  }
  check_layout("-I --in_layout", args.in_layout, args.spatial_dim);
  check_layout("-f --fil_layout", args.wei_layout, args.spatial_dim);
  check_layout("-O --out_layout", args.out_layout, args.spatial_dim);
  check_strides("--in_strides", args.in_strides, args.spatial_dim);
  check_strides("--wei_strides", args.wei_strides, args.spatial_dim);
  check_strides("--out_strides", args.out_strides, args.spatial_dim);
  const std::string_view mode = std::string_view(args.fuse).substr(args.fuse.starts_with('b') ? 1 : 0);
  if (!args.fuse.empty() && (mode.size() != 1 || mode[0] < '0' || mode[0] > '9')) {
    throw ArgError(fmt::format("--fuse: bad value '{}', allowed: b0 (bias), 0 to 9 (activation), b1 to b9", args.fuse));
  }
  if (args.wall > 0 && args.time == 0) throw ArgError("-w --wall: needs -t 1");
  input_lens(args);
  weight_lens(args);
}

template <class Wanted>
std::string write_line(const ConvArgs& args, Wanted wanted) {
  static const ConvArgs defaults;
  std::string line = args.base;
  for (const Flag& flag : flags()) {
    if (flag.name == "solver" || is_unused(flag, args.spatial_dim) || !wanted(flag)) continue;
    const std::string value = std::visit(Show{args}, flag.field);
    if (flag.part != Part::kShape && value == std::visit(Show{defaults}, flag.field)) continue;
    line += ' ' + spelling(flag);
    if (!std::holds_alternative<Switch>(flag.field)) line += ' ' + value;
  }
  return line;
}

// Symmetric pad of one axis for --pad_mode same.
std::int64_t same_pad(std::int64_t in, std::int64_t extent, std::int64_t stride, const std::int64_t* output_pad) {
  if (output_pad != nullptr) return std::max<std::int64_t>(extent - stride + *output_pad, 0) / 2;
  const std::int64_t out = (in + stride - 1) / stride;
  const std::int64_t total = std::max<std::int64_t>((out - 1) * stride + extent - in, 0);
  const std::int64_t more = (total + 1) / 2;
  return (in + 2 * more - extent) / stride + 1 == out ? more : total / 2;
}

std::vector<std::int64_t> last_axes(std::int64_t spatial_dim, std::int64_t d, std::int64_t h, std::int64_t w) {
  const std::int64_t all[] = {d, h, w};
  return {all + (3 - spatial_dim), all + 3};
}

}  // namespace

const std::vector<std::string>& base_args() {
  static const std::vector<std::string> names = {"conv",    "convfp16", "convbfp16", "convint8",
                                                 "convfp8", "convbfp8", "convfp64",  "demo"};
  return names;
}

ConvArgs parse(const std::vector<std::string>& arguments, const ConvArgs& defaults) {
  ConvArgs args = defaults;
  if (arguments.empty()) throw ArgError(fmt::format("no base argument, allowed: {}", fmt::join(base_args(), " ")));
  const auto& bases = base_args();
  if (std::find(bases.begin(), bases.end(), arguments[0]) == bases.end()) {
    throw ArgError(fmt::format("Incorrect BaseArg '{}', allowed: {}", arguments[0], fmt::join(bases, " ")));
  }
  args.base = arguments[0];
  if (args.base == "demo") args.batch = kDemoBatch;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const Flag& flag = find_flag(arguments[i]);
    const bool takes_value = !std::holds_alternative<Switch>(flag.field);
    if (takes_value && i + 1 == arguments.size()) throw ArgError(fmt::format("{}: its value is missing", arguments[i]));
    const std::string_view value = takes_value ? std::string_view(arguments[++i]) : std::string_view();
    std::visit(Assign{flag, value, args}, flag.field);
  }
  normalise(args);
  return args;
}

ConvArgs parse_line(std::string_view line, const ConvArgs& defaults) {
  std::istringstream stream{std::string(line)};
  std::vector<std::string> arguments;
  for (std::string argument; stream >> argument;) arguments.push_back(argument);
  if (!arguments.empty() && arguments[0].ends_with("MIOpenDriver")) arguments.erase(arguments.begin());
  return parse(arguments, defaults);
}

std::string to_line(const ConvArgs& args) {
  return write_line(args, [](const Flag&) { return true; });
}

std::string problem_line(const ConvArgs& args, std::int64_t directions) {
  ConvArgs copy = args;
  copy.directions = directions;
  return write_line(copy, [](const Flag& flag) { return flag.part != Part::kRun; });
}

std::string help_text(std::string_view other_bases) {
  static const ConvArgs defaults;
  std::string text = fmt::format(
      "Usage: MIOpenDriver <base> [flags]\n"
      "       MIOpenDriver dataset | db | devices | doctor | options | tune | warm ...   (each has its own --help)\n"
      "       MIOpenDriver --version | --help\n"
      "Bases: {}{}{}\n"
      "A flag's value is the next argument. 'demo' runs every convolution of ResNet-50 and writes "
      "resnet50.html.\n"
      "Flags (default in brackets):\n",
      fmt::join(base_args(), " "), other_bases.empty() ? "" : " ", other_bases);
  for (const Flag& flag : flags()) {
    const std::string letter = flag.letter.empty() ? "    " : fmt::format("-{}, ", flag.letter);
    const std::string value = std::visit(Show{defaults}, flag.field);
    std::string help(flag.help);
    if (const auto* selection = std::get_if<Selection>(&flag.field)) {
      help += fmt::format(": {}", allowed_names(selection->choices));
    }
    if (!value.empty()) help += fmt::format(" [{}]", value);
    text += fmt::format("  {}--{:<20} {}\n", letter, flag.name, help);
  }
  return text + "Exit status: 0 when everything ran and verified, 1 otherwise.\n";
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
  if (args.pad_mode == kPadDefault) return pad;
  const auto in = input_lens(args);
  const auto filter = weight_lens(args);
  const auto stride = strides(args);
  const auto dilation = dilations(args);
  const auto extra = output_pads(args);
  for (std::size_t i = 0; i < pad.size(); ++i) {
    const std::int64_t extent = (filter[i + 2] - 1) * dilation[i] + 1;
    const std::int64_t* output_pad = args.transpose != 0 ? &extra[i] : nullptr;
    pad[i] = args.pad_mode == kPadValid ? 0 : same_pad(in[i + 2], extent, stride[i], output_pad);
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

std::vector<std::int64_t> tensor_strides(const std::vector<std::int64_t>& lens, const std::string& layout,
                                         const std::vector<std::int64_t>& given) {
  if (!given.empty()) return given;
  std::vector<std::int64_t> result(lens.size());
  const bool channels_last = layout.size() > 2 && layout.back() == 'C';
  std::int64_t step = 1;
  if (channels_last) {
    result[1] = step;
    step *= lens[1];
  }
  for (std::size_t i = lens.size(); i-- > 0;) {
    if (channels_last && i == 1) continue;
    result[i] = step;
    step *= lens[i];
  }
  return result;
}

TensorTypes tensor_types(const ConvArgs& args, Direction direction) {
  static const std::pair<std::string_view, int> kTypes[] = {
      {"convfp16", kHalf},  {"convbfp16", kBFloat16}, {"convint8", kInt8},
      {"convfp8", kFloat8}, {"convbfp8", kBFloat8},   {"convfp64", kDouble},
  };
  int type = kFloat;
  for (const auto& [base, base_type] : kTypes) {
    if (base == args.base) type = base_type;
  }
  TensorTypes types{type, type, type};
  int& written = direction == kForward ? types.y : direction == kBackwardData ? types.x : types.w;
  int& second = direction == kBackwardWeights ? types.y : types.w;
  if (type == kInt8) written = kInt32;
  if (args.out_type != kNoType) written = args.out_type;
  if (args.second_type != kNoType) second = args.second_type;
  return types;
}

const char* type_name(int type) {
  switch (type) {
    case kHalf: return "fp16";
    case kFloat: return "fp32";
    case kInt32: return "int32";
    case kInt8: return "int8";
    case kBFloat16: return "bf16";
    case kDouble: return "fp64";
    case kFloat8: return "fp8";
    case kBFloat8: return "bfp8";
    default: return "unknown";
  }
}

}  // namespace polymio::driver
