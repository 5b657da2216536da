// Mutations of valid bytes: accidents (flipped bits, truncation, lost and repeated parts) and forgery (another number,
// a part of another sample).
// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz.h"

namespace polymio::fuzz {

/// Numbers at the ends of ranges, and texts that only resemble numbers.
inline std::string extreme_number(Random& random) {
  if (random.one_in(3)) return random.pick<const char*>({"0", "-1", "1"});
  return random.pick<const char*>({"0",
                                   "-0",
                                   "1",
                                   "-1",
                                   "2",
                                   "3",
                                   "7",
                                   "63",
                                   "64",
                                   "65",
                                   "255",
                                   "512",
                                   "4096",
                                   "65536",
                                   "2147483647",
                                   "2147483648",
                                   "-2147483648",
                                   "4294967295",
                                   "4294967297",
                                   "9223372036854775807",
                                   "-9223372036854775808",
                                   "18446744073709551615",
                                   "99999999999999999999",
                                   "0.5",
                                   "1e-320",
                                   "1e308",
                                   "-1e308",
                                   "inf",
                                   "nan",
                                   "",
                                   "0x10"});
}

/// Replaces one number of the text, if there is one.
inline void replace_number(Random& random, std::string& text) {
  constexpr std::string_view kDigits = "0123456789";
  if (text.empty()) return;
  const std::size_t first = text.find_first_of(kDigits, random.below(text.size()));
  if (first == std::string::npos) return;
  const std::size_t last = std::min(text.find_first_not_of(kDigits, first), text.size());
  text.replace(first, last - first, extreme_number(random));
}

/// One mutation.
inline void mutate_once(Random& random, std::string& text, const std::vector<std::string>& others) {
  if (text.empty()) {
    text.push_back(static_cast<char>(random.below(256)));
    return;
  }
  const std::size_t at = random.below(text.size()),
                    length = 1 + random.below(std::min<std::size_t>(text.size() - at, 40));
  switch (random.below(8)) {
    case 0: text[at] = static_cast<char>(text[at] ^ 1 << random.below(8)); break;
    case 1: text[at] = static_cast<char>(random.below(256)); break;
    case 2: text.resize(at); break;
    case 3: text.erase(at, length); break;
    case 4: text.insert(at, text.substr(at, length)); break;
    case 5: {
      const std::string& other = random.pick(others);
      if (other.empty()) break;
      const std::size_t from = random.below(other.size());
      text.replace(at, length, other.substr(from, 1 + random.below(40)));
      break;
    }
    default: replace_number(random, text);
  }
}

/// One to three mutations, most often one, since a text with several is refused for the first.
inline std::string mutate(Random& random, std::string text, const std::vector<std::string>& others) {
  for (std::uint64_t changes = random.one_in(3) ? 1 + random.below(3) : 1; changes > 0; --changes)
    mutate_once(random, text, others);
  return text;
}

}  // namespace polymio::fuzz
