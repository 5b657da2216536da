// Types, layouts and the flags of every primitive.
// SPDX-License-Identifier: MIT
#include "driver/run/common_args.h"

#include <fmt/format.h>

#include <utility>

namespace polymio::driver {
namespace {

// MIOpen's names; those of the OCP formats are our own.
constexpr std::pair<DataType, std::string_view> kSuffixes[] = {
    {kFloat, ""},         {kHalf, "fp16"},        {kBFloat16, "bfp16"},          {kInt8, "int8"},
    {kFloat8Fnuz, "fp8"}, {kBFloat8Fnuz, "bfp8"}, {kFloat8E4m3fn, "fp8_e4m3fn"}, {kFloat8E5m2, "fp8_e5m2"},
    {kDouble, "fp64"},    {kInt32, "int32"}};

}  // namespace

const char* type_name(int type) {
  switch (type) {
    case kHalf: return "fp16";
    case kFloat: return "fp32";
    case kInt32: return "int32";
    case kInt8: return "int8";
    case kBFloat16: return "bf16";
    case kDouble: return "fp64";
    case kFloat8Fnuz: return "fp8";
    case kBFloat8Fnuz: return "bfp8";
    case kFloat8E4m3fn: return "fp8_e4m3fn";
    case kFloat8E5m2: return "fp8_e5m2";
    default: return "unknown";
  }
}

std::vector<std::string> Bases::names() const {
  std::vector<std::string> all;
  for (const DataType wanted : types) {
    for (const auto& [type, suffix] : kSuffixes) {
      if (type == wanted) all.push_back(fmt::format("{}{}", primitive, suffix));
    }
  }
  return all;
}

DataType Bases::type_of(std::string_view base) const {
  const std::vector<std::string> all = names();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == base) return types[i];
  }
  return kNoType;
}

Flags run_flags(RunArgs& args) {
  return {
      {"i", "iter", Integer{&args.iterations, 1, 1000000000}, "timed runs per direction"},
      {"V", "verify", Integer{&args.verify, 0, 2},
       "0 no; 1 compare with an evaluation in double, large problems sampled; 2 compare everything"},
      {"t", "time", Integer{&args.time, 0, 1}, "1: print time and rates"},
      {"s", "search", Integer{&args.search, 0, 1}, "1: exhaustive search before the first run"},
      {"S", "solution", Text{&args.solution, "SOLVER"},
       "negative: find; 0: best of immediate mode; a solution number or solver name: that one"},
      {"", "solver", Text{&args.solution, "SOLVER"}, "same as --solution", Part::kAlias},
      device_flag(args.device),
      {"", "json", Switch{&args.json}, "one JSON object per direction instead of text"},
      {"", "explain", Switch{&args.explain}, "list every solver: usable or why not, predicted and measured time"},
      {"", "from-list", Text{&args.from_list, "FILE"},
       "file with one problem per line in this syntax; '#' starts a comment"},
  };
}

Flag device_flag(std::string& device) {
  return {"", "device", Text{&device, "DEVICE"}, "cpu, cuda:0, ... (default: the library's choice)"};
}

void check_layout(const Flag& flag, std::int64_t spatial_dim) {
  static constexpr std::string_view kFirst[] = {"NC", "NCW", "NCHW", "NCDHW"};
  static constexpr std::string_view kLast[] = {"NC", "NWC", "NHWC", "NDHWC"};
  const std::string layout = value_text(flag);
  const auto index = static_cast<std::size_t>(spatial_dim);
  if (layout.empty() || layout == kFirst[index] || layout == kLast[index]) return;
  refuse_value(flag, layout, fmt::format("{} {}, as --spatial_dim is {}", kFirst[index], kLast[index], spatial_dim));
}

void check_strides(const Flag& flag, std::int64_t spatial_dim) {
  const auto rank = static_cast<std::size_t>(spatial_dim + 2);
  const auto& given = *std::get<Integers>(flag.variable).variable;
  if (given.empty() || given.size() == rank) return;
  refuse_value(flag, value_text(flag), fmt::format("{} strides, as --spatial_dim is {}", rank, spatial_dim));
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

std::vector<std::int64_t> last_axes(std::int64_t spatial_dim, std::int64_t d, std::int64_t h, std::int64_t w) {
  const std::int64_t all[] = {d, h, w};
  return {all + (3 - spatial_dim), all + 3};
}

}  // namespace polymio::driver
