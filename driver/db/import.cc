// The key of a FindDb line is a list of fields between dashes. The payload is only checked: its times are of another
// machine and of other solvers.
// SPDX-License-Identifier: MIT
#include "driver/db/import.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <istream>
#include <unordered_set>
#include <utility>

#include "driver/base/files.h"

namespace polymio::driver {
namespace {

// Why a line is not a problem; caught in this file.
struct Unreadable {
  std::string reason;
};

template <class... T>
[[noreturn]] void refuse(fmt::format_string<T...> text, T&&... values) {
  throw Unreadable{fmt::format(text, std::forward<T>(values)...)};
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t end; (end = text.find(separator)) != std::string_view::npos; text.remove_prefix(end + 1)) {
    parts.push_back(text.substr(0, end));
  }
  parts.push_back(text);
  return parts;
}

std::int64_t to_size(std::string_view text, std::int64_t least) {
  constexpr std::int64_t kMost = 2147483647;
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || value < least || value > kMost) {
    refuse("'{}' is not an integer from {} to {}", text, least, kMost);
  }
  return value;
}

bool is_number(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end;
}

// The fields of a key, taken from the front.
class Fields {
 public:
  explicit Fields(std::string_view key) : parts_(split(key, '-')) {}

  std::string_view text() {
    if (at_ == parts_.size()) refuse("the key ends after {} fields", at_);
    return parts_[at_++];
  }
  std::int64_t size() { return to_size(text(), 1); }
  std::vector<std::int64_t> sizes(std::int64_t count) {
    std::vector<std::int64_t> values;
    while (count-- > 0) values.push_back(size());
    return values;
  }
  // "3x3"
  std::vector<std::int64_t> crossed(std::size_t count, std::int64_t least) {
    const auto parts = split(text(), 'x');
    if (parts.size() != count) refuse("a field has {} numbers, the others {}", parts.size(), count);
    std::vector<std::int64_t> values;
    for (std::string_view part : parts) values.push_back(to_size(part, least));
    return values;
  }
  std::size_t left() const { return parts_.size() - at_; }
  // 2 or 3: the filter is the first field with crosses.
  std::int64_t spatial_dim() const {
    for (std::int64_t dim : {2, 3}) {
      const auto index = static_cast<std::size_t>(dim + 1);
      if (index < parts_.size() && parts_[index].find('x') != std::string_view::npos) return dim;
    }
    refuse("no filter such as 3x3 after the input sizes");
  }

 private:
  std::vector<std::string_view> parts_;
  std::size_t at_ = 0;
};

DataType type_of(std::string_view name) {
  static constexpr std::pair<std::string_view, DataType> kNames[] = {
      {"FP32", kFloat},  {"FP16", kHalf},   {"BF16", kBFloat16},  {"INT8", kInt8},
      {"FP64", kDouble}, {"INT32", kInt32}, {"FP8", kFloat8Fnuz}, {"BFP8", kBFloat8Fnuz}};
  for (const auto& [text, type] : kNames) {
    if (text == name) return type;
  }
  refuse("data type '{}'", name);
}

// "FP32", or three names in a row: in, wei, out.
std::array<DataType, 3> types_of(std::string_view text) {
  static constexpr std::string_view kLongestFirst[] = {"INT32", "FP32", "FP16", "BF16", "INT8", "FP64", "BFP8", "FP8"};
  std::vector<DataType> types;
  for (std::string_view rest = text; !rest.empty();) {
    std::size_t length = 0;
    for (std::string_view name : kLongestFirst) {
      if (length == 0 && rest.starts_with(name)) length = name.size();
    }
    if (length == 0) refuse("data type '{}'", text);
    types.push_back(type_of(rest.substr(0, length)));
    rest.remove_prefix(length);
  }
  if (types.size() == 1) return {types[0], types[0], types[0]};
  if (types.size() != 3) refuse("data type '{}'", text);
  return {types[0], types[1], types[2]};
}

std::string base_of(DataType type) {
  switch (type) {
    case kFloat: return "conv";
    case kHalf: return "convfp16";
    case kBFloat16: return "convbfp16";
    case kInt8: return "convint8";
    case kDouble: return "convfp64";
    case kFloat8Fnuz: return "convfp8";
    case kBFloat8Fnuz: return "convbfp8";
    default: refuse("tensors that are read as int32");
  }
}

// The key's "in" is the first operand of the direction: for both backward directions the output gradient.
void set_types(ConvArgs& args, const std::array<DataType, 3>& types) {
  const auto [in, wei, out] = types;
  const bool weights = args.directions == kBackwardWeights;
  const DataType written = weights ? wei : out, second = weights ? in : wei;
  args.base = base_of(weights ? out : in);
  const TensorTypes usual = tensor_types(args, static_cast<Direction>(args.directions));
  const int usual_written = args.directions == kForward ? usual.y : weights ? usual.w : usual.x;
  // The key of plain int8 names one type, although the output is int32.
  const bool plain = in == wei && wei == out;
  if (written != usual_written && !(plain && in == kInt8)) args.out_type = written;
  if (second != (weights ? usual.y : usual.w)) args.second_type = second;
}

void set_layouts(ConvArgs& args, std::string_view in, std::string_view wei, std::string_view out) {
  const std::string_view first = args.spatial_dim == 2 ? "NCHW" : "NCDHW";
  const std::string_view last = args.spatial_dim == 2 ? "NHWC" : "NDHWC";
  if (args.directions != kForward) std::swap(in, out);
  for (auto [layout, member] : {std::pair{in, &args.in_layout}, {wei, &args.wei_layout}, {out, &args.out_layout}}) {
    if (layout != first && layout != last) refuse("layout '{}'", layout);
    if (layout == last) *member = layout;
  }
}

// The suffixes after the direction: _g32, _ciFP8, _cwFP8, _coBFP8.
void set_suffix(ConvArgs& args, std::string_view suffix) {
  if (suffix.starts_with("ci")) {
    (args.directions == kForward ? args.in_cast : args.out_cast) = type_of(suffix.substr(2));
  } else if (suffix.starts_with("cw")) {
    args.wei_cast = type_of(suffix.substr(2));
  } else if (suffix.starts_with("co")) {
    (args.directions == kForward ? args.out_cast : args.in_cast) = type_of(suffix.substr(2));
  } else if (suffix.starts_with("g")) {
    args.groups = to_size(suffix.substr(1), 1);
  } else {
    refuse("'_{}' after the direction", suffix);
  }
}

using Sizes = std::vector<std::int64_t>;

void set_axes(const Sizes& values, std::array<std::int64_t*, 3> members) {
  for (std::size_t i = 0; i < values.size(); ++i) *members[3 - values.size() + i] = values[i];
}

// Input, filter, pad, stride and dilation must give the output size, or the fields mean something else.
void check_sizes(const Sizes& in, const Sizes& out, const Sizes& filter, const ConvArgs& args) {
  const Sizes pad = pads(args), stride = strides(args), dilation = dilations(args);
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::int64_t room = in[i] + 2 * pad[i] - (dilation[i] * (filter[i] - 1) + 1);
    if (room < 0 || room / stride[i] + 1 != out[i]) {
      refuse("input {}, filter {}, pad {}, stride {}, dilation {} do not give output {}", in[i], filter[i], pad[i],
             stride[i], dilation[i], out[i]);
    }
  }
}

std::int64_t direction_of(std::string_view text) {
  if (text == "F") return kForward;
  if (text == "B") return kBackwardData;
  if (text == "W") return kBackwardWeights;
  refuse("direction '{}', not F, B or W", text);
}

ConvArgs read_key(std::string_view key) {
  const auto ends = split(key, '_');
  Fields fields(ends[0]);
  ConvArgs args;
  args.spatial_dim = fields.spatial_dim();
  const auto rank = static_cast<std::size_t>(args.spatial_dim);
  args.in_channels = fields.size();
  Sizes in = fields.sizes(args.spatial_dim);
  const Sizes filter = fields.crossed(rank, 1);
  args.out_channels = fields.size();
  Sizes out = fields.sizes(args.spatial_dim);
  args.batch = fields.size();
  set_axes(filter, {&args.fil_d, &args.fil_h, &args.fil_w});
  set_axes(fields.crossed(rank, 0), {&args.pad_d, &args.pad_h, &args.pad_w});
  set_axes(fields.crossed(rank, 1), {&args.stride_d, &args.stride_h, &args.stride_w});
  set_axes(fields.crossed(rank, 1), {&args.dilation_d, &args.dilation_h, &args.dilation_w});
  fields.text();  // bias
  std::string_view layouts[3] = {fields.text()};
  layouts[1] = layouts[2] = layouts[0];
  if (fields.left() == 4) {
    layouts[1] = fields.text();
    layouts[2] = fields.text();
  }
  if (fields.left() != 2) refuse("{} fields after the layout, not data type and direction", fields.left());
  const auto types = types_of(fields.text());
  args.directions = direction_of(fields.text());
  if (args.directions != kForward) {
    std::swap(args.in_channels, args.out_channels);
    in.swap(out);
  }
  set_axes(in, {&args.in_d, &args.in_h, &args.in_w});
  set_types(args, types);
  set_layouts(args, layouts[0], layouts[1], layouts[2]);
  for (std::size_t i = 1; i < ends.size(); ++i) set_suffix(args, ends[i]);
  check_sizes(in, out, filter, args);
  weight_lens(args);  // throws when the groups do not divide the channels
  return args;
}

// "id:time,..." or the older "id:solver,time,...".
bool is_item(std::string_view item) {
  const std::size_t colon = item.rfind(':');
  if (colon == 0 || colon == std::string_view::npos) return false;
  const auto values = split(item.substr(colon + 1), ',');
  return values.size() >= 2 && (is_number(values[0]) || is_number(values[1]));
}

ConvArgs read_record(std::string_view line) {
  const std::size_t equals = line.find('=');
  if (equals == std::string_view::npos) refuse("no '=' between key and results");
  bool any = false;
  for (std::string_view item : split(line.substr(equals + 1), ';')) any = any || is_item(item);
  if (!any) refuse("no result such as solver:time,workspace,algorithm");
  return read_key(line.substr(0, equals));
}

template <class Read>
std::optional<ConvArgs> guarded(const Read& read, std::string& reason) {
  try {
    return read();
  } catch (const Unreadable& error) {
    reason = error.reason;
  } catch (const ArgError& error) {
    reason = error.what();
  }
  return std::nullopt;
}

}  // namespace

std::optional<ConvArgs> problem_of_key(std::string_view key, std::string& reason) {
  return guarded([&] { return read_key(key); }, reason);
}

ImportedList import_find_db(std::istream& text) {
  ImportedList list;
  std::unordered_set<std::string> seen;
  std::size_t number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.empty()) continue;
    std::string reason;
    if (line.size() > kLongestLine) {
      list.skipped.push_back({number, fmt::format("{} bytes, allowed: {}", line.size(), kLongestLine)});
      continue;
    }
    const auto args = guarded([&] { return read_record(line); }, reason);
    if (!args) {
      list.skipped.push_back({number, std::move(reason)});
      continue;
    }
    ++list.records;
    std::string problem = problem_line(*args, args->directions);
    if (seen.insert(problem).second) list.problems.push_back(std::move(problem));
  }
  return list;
}

}  // namespace polymio::driver
