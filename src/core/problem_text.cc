// SPDX-License-Identifier: MIT
#include "core/problem_text.h"

#include <fmt/format.h>

namespace polymio {
namespace {

/// What the driver's base argument says of the type: nothing for fp32 and for types that it has no name for.
const char* suffix(DataType t) {
  switch (t) {
    case DataType::kHalf: return "fp16";
    case DataType::kBFloat16: return "bfp16";
    case DataType::kInt8: return "int8";
    case DataType::kDouble: return "fp64";
    case DataType::kFloat8Fnuz:
    case DataType::kBFloat8Fnuz:
    case DataType::kFloat8E4m3fn:
    case DataType::kFloat8E5m2: return name_of(t);
    default: return "";
  }
}

}  // namespace

std::string base_arg(const char* primitive, DataType type, int spatial) {
  const std::string dimensions = spatial == 2 ? "" : fmt::format(" -_ {}", spatial);
  return fmt::format("{}{}{}", primitive, suffix(type), dimensions);
}

std::string size_flags(const TensorDesc& t) {
  static constexpr const char* kFlags[] = {"-n", "-c", "-!", "-H", "-W"};
  constexpr int kRank = 5;
  std::string text;
  for (int d = 0; d < t.rank; ++d) {
    const auto flag = static_cast<std::size_t>(d < 2 ? d : d + kRank - t.rank);
    text += fmt::format(" {} {}", kFlags[flag], t.lens[static_cast<std::size_t>(d)]);
  }
  return text;
}

std::string strides_flag(const TensorDesc& t, const char* flag) { return fmt::format(" {} {}", flag, strides_text(t)); }
std::string strides_unless_dense(const TensorDesc& t, const char* flag) {
  return t.is_channels_first() ? "" : strides_flag(t, flag);
}

std::string layout_flags(const TensorDesc& t, const char* layout, const char* strides) {
  if (t.is_channels_first()) return "";
  const std::string name = layout_name(t);
  return name.empty() ? strides_flag(t, strides) : fmt::format(" {} {}", layout, name);
}

NumbersText::operator std::string() const { return fmt::format("{}", fmt::join(numbers, numbers + count, separator)); }

}  // namespace polymio
