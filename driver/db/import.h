// Reads the text of MIOpen's FindDb as a list of problems, in both of its grammars:
//   key=solver:time,workspace,algorithm[;...]       and the older
//   key=algorithm:solver,time,workspace,key1,key2[;...]
// Depends on the standard library and fmt only.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "driver/run/conv_args.h"

namespace polymio::driver {

// The problem of a key, for its one direction; none, and the reason, when the key is invalid or not supported here.
std::optional<ConvArgs> problem_of_key(std::string_view key, std::string& reason);

struct ImportedList {
  struct Skipped {
    std::size_t line;
    std::string reason;
  };
  std::vector<std::string> problems;  // driver lines in the order of the file, each once
  std::size_t records = 0;            // lines understood
  std::vector<Skipped> skipped;
};

ImportedList import_find_db(std::istream& text);

}  // namespace polymio::driver
