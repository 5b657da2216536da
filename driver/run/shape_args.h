// Sizes of a tensor as MIOpenDriver has them in one flag: 2x32x128; with strides in elements: 2x32@40x1.
// SPDX-License-Identifier: MIT
#pragma once

#include <charconv>
#include <string>
#include <string_view>

#include "driver/run/common_args.h"
#include "reference/tensor.h"

namespace polymio::driver {

inline std::vector<std::int64_t> numbers_of(std::string_view text, const Flag& flag, char separator,
                                            std::int64_t least) {
  std::vector<std::int64_t> numbers;
  const char *at = text.data(), *const end = at + text.size();
  for (;; ++at) {
    std::int64_t number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < least || (next != end && *next != separator))
      refuse_value(flag, value_text(flag), "numbers such as 2x32x128, or sizes and strides such as 2x32@40x1");
    numbers.push_back(number);
    if (next == end) return numbers;
    at = next;
  }
}

// Throws ArgError. `flag` is of a Text with the shape.
inline reference::Tensor shape_of(const Flag& flag, reference::Type type) {
  const std::string_view text = *std::get<Text>(flag.variable).variable;
  const std::size_t at = text.find('@');
  const std::vector<std::int64_t> lens = numbers_of(text.substr(0, at), flag, 'x', 1);
  if (at == text.npos) return {type, lens};
  const std::vector<std::int64_t> strides = numbers_of(text.substr(at + 1), flag, 'x', 0);
  if (strides.size() != lens.size()) refuse_value(flag, text, "as many strides as sizes");
  return {type, lens, strides};
}

}  // namespace polymio::driver
