// SPDX-License-Identifier: MIT
#include "driver/run/activ_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "driver/base/flags.h"

namespace polymio::driver {
namespace {

constexpr std::pair<std::string_view, int> kBases[] = {
    {"activ", kFloat}, {"activfp16", kHalf}, {"activbfp16", kBFloat16}, {"activfp64", kDouble}};
constexpr const char* kModes[] = {"passthru", "logistic", "tanh",        "relu",      "softrelu",
                                  "abs",      "power",    "clippedrelu", "leakyrelu", "elu"};

constexpr TextFlag kFlags[] = {
    {"-_", "N", "--spatial_dim: spatial dimensions, 0 to 3 [2]"},
    {"-n", "N", "--batchsize [100]"},
    {"-c", "N", "--in_channels [3]"},
    {"-!", "N", "--in_d: depth [32]"},
    {"-H", "N", "--in_h: height [32]"},
    {"-W", "N", "--in_w: width [32]"},
    {"-m", "MODE", "--mode: number or name of the function, see below [3]"},
    {"-F", "N", "--forw: 1 forward, 2 backward, 0 both [0]"},
    {"-A", "X", "--alpha of the function [0]"},
    {"-B", "X", "--beta of the function [0]"},
    {"-G", "X", "--gamma of the function [1]"},
    {"--scale_alpha", "X", "result = scale_alpha * f(x) + scale_beta * result [1]"},
    {"--scale_beta", "X", "see there [0]"},
    {"-I", "LAYOUT", "--in_layout: of x and dx, such as NCHW or NHWC [channels first]"},
    {"-O", "LAYOUT", "--out_layout: of y and dy [channels first]"},
    {"--in_strides", "LIST", "strides of x, in N,C,[D],H,W order, in place of a layout"},
    {"--out_strides", "LIST", "strides of y"},
    {"--din_strides", "LIST", "strides of dx [those of x]"},
    {"--dout_strides", "LIST", "strides of dy [those of y]"},
    {"-i", "N", "--iter: timed runs [10]"},
    {"-V", "N", "--verify: 0 no, 1 yes (a sample of very large tensors), 2 every element [1]"},
    {"-t", "N", "--time: 1 prints times [0]"},
    {"-s", "N", "--search: 1 tunes before the first run and stores the result [0]"},
    {"-S", "SOLVER", "--solution: name or id of the solver to use; 0 or less: the best known [-1]"},
    {"--device", "DEVICE", "cpu, ... (default: the library's choice)"},
};
constexpr Command kCommand{"activ|activfp16|activbfp16|activfp64",
                           "",
                           "Runs an activation function and its gradient.\n"
                           "Functions: 0 passthru, 1 logistic, 2 tanh, 3 relu, 4 softrelu, 5 abs, 6 power,\n"
                           "7 clippedrelu, 8 leakyrelu, 9 elu.",
                           kFlags,
                           0,
                           0};

/// The letter of a long name, which is at the start of the flag's help text; other arguments unchanged.
std::string short_name(const std::string& argument) {
  for (const TextFlag& flag : kFlags) {
    const std::string_view help = flag.help.substr(0, flag.help.find_first_of(": "));
    if (help == argument) return std::string(flag.name);
  }
  return argument;
}

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

[[noreturn]] void fail_value(std::string_view flag, std::string_view value, const std::string& allowed) {
  throw ArgError(fmt::format("{}: bad value '{}', allowed: {}", flag, value, allowed));
}

class Reader {
 public:
  explicit Reader(const Arguments& arguments) : arguments_(arguments) {}

  std::int64_t integer(std::string_view flag, std::int64_t preset, std::int64_t low, std::int64_t high) const {
    const auto text = arguments_.value(flag);
    if (!text) return preset;
    const auto value = number<std::int64_t>(*text);
    if (!value || *value < low || *value > high)
      fail_value(flag, *text, fmt::format("an integer from {} to {}", low, high));
    return *value;
  }

  double real(std::string_view flag, double preset) const {
    const auto text = arguments_.value(flag);
    if (!text) return preset;
    const auto value = number<double>(*text);
    if (!value || !std::isfinite(*value)) fail_value(flag, *text, "a finite number");
    return *value;
  }

  int mode() const {
    const std::string text = arguments_.value("-m").value_or("3");
    const auto name = std::find(std::begin(kModes), std::end(kModes), text);
    if (name != std::end(kModes)) return static_cast<int>(name - std::begin(kModes));
    const auto value = number<int>(text);
    if (!value || *value < 0 || *value > 9) fail_value("-m", text, fmt::format("0 to 9, {}", fmt::join(kModes, ", ")));
    return *value;
  }

  // Empty where the flag is not given.
  std::vector<std::int64_t> strides(std::string_view flag, std::size_t rank) const {
    std::vector<std::int64_t> all;
    for (const std::string& text : arguments_.values(flag)) {
      const auto value = number<std::int64_t>(text);
      if (!value || *value < 1) fail_value(flag, text, "positive integers separated by commas");
      all.push_back(*value);
    }
    if (!all.empty() && all.size() != rank)
      throw ArgError(fmt::format("{}: {} strides given, allowed: {}, one per dimension", flag, all.size(), rank));
    return all;
  }

  std::string layout(std::string_view flag, std::size_t rank) const {
    static constexpr std::string_view kLayouts[4][2] = {
        {"NC", "NC"}, {"NCW", "NWC"}, {"NCHW", "NHWC"}, {"NCDHW", "NDHWC"}};
    const auto text = arguments_.value(flag);
    if (!text) return "";
    const auto& allowed = kLayouts[rank - 2];
    if (*text != allowed[0] && *text != allowed[1])
      fail_value(flag, *text, fmt::format("{}", fmt::join(allowed, ", ")));
    return *text;
  }

 private:
  const Arguments& arguments_;
};

std::vector<std::int64_t> sizes(const Reader& read) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  const auto spatial = static_cast<std::size_t>(read.integer("-_", 2, 0, 3));
  std::vector<std::int64_t> lens = {read.integer("-n", 100, 1, kMost), read.integer("-c", 3, 1, kMost)};
  static constexpr std::string_view kSpatial[] = {"-!", "-H", "-W"};
  for (std::size_t i = 3 - spatial; i < 3; ++i) lens.push_back(read.integer(kSpatial[i], 32, 1, kMost));
  return lens;
}

}  // namespace

bool is_activ(const std::string& argument) {
  return std::any_of(std::begin(kBases), std::end(kBases), [&](const auto& base) { return base.first == argument; });
}

std::string activ_bases() {
  std::string all;
  for (const auto& [base, type] : kBases) all += fmt::format("{}{}", all.empty() ? "" : " ", base);
  return all;
}

void refuse_activ(std::string_view command, std::span<const std::string> arguments) {
  const auto found = std::find_if(arguments.begin(), arguments.end(), is_activ);
  if (found == arguments.end()) return;
  throw ArgError(
      fmt::format("{}: '{}' is no convolution: the command is for convolutions only, allowed: {}; activations are "
                  "tuned by running them with MIOPEN_FIND_ENFORCE=SEARCH",
                  command, *found, fmt::join(base_args(), " ")));
}

ActivArgs parse_activ(std::span<const std::string> arguments) {
  ActivArgs args;
  for (const auto& [base, type] : kBases)
    if (base == arguments[0]) args.type = type;
  std::vector<std::string> rest;
  for (const std::string& argument : arguments.subspan(1)) rest.push_back(short_name(argument));
  const Arguments flags(kCommand, rest);
  args.help = flags.help();
  const Reader read(flags);
  args.lens = sizes(read);
  const std::size_t rank = args.lens.size();
  args.x_strides = tensor_strides(args.lens, read.layout("-I", rank), read.strides("--in_strides", rank));
  args.y_strides = tensor_strides(args.lens, read.layout("-O", rank), read.strides("--out_strides", rank));
  args.dx_strides = read.strides("--din_strides", rank);
  args.dy_strides = read.strides("--dout_strides", rank);
  if (args.dx_strides.empty()) args.dx_strides = args.x_strides;
  if (args.dy_strides.empty()) args.dy_strides = args.y_strides;
  args.mode = read.mode();
  const std::int64_t directions = read.integer("-F", 0, 0, 3);
  args.directions = directions == 0 ? 3 : directions;
  args.alpha = read.real("-A", 0);
  args.beta = read.real("-B", 0);
  args.gamma = read.real("-G", 1);
  args.scale = read.real("--scale_alpha", 1);
  args.keep = read.real("--scale_beta", 0);
  args.iterations = read.integer("-i", 10, 1, 1000000);
  args.verify = read.integer("-V", 1, 0, 2);
  args.time = read.integer("-t", 0, 0, 1);
  args.search = read.integer("-s", 0, 0, 1);
  args.solver = flags.value("-S").value_or("");
  if (args.solver.starts_with('-') || args.solver == "0") args.solver.clear();
  args.device = flags.value("--device").value_or("");
  return args;
}

std::string activ_help() { return help_of(kCommand); }

const char* activ_mode_name(int mode) { return kModes[mode]; }

}  // namespace polymio::driver
