// The arguments of a command such as 'db list FILE --json': operands, switches and flags with a value. Depends on the
// standard library and fmt only.
// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driver/run/conv_args.h"

namespace polymio::driver {

struct TextFlag {
  std::string_view name;   // with its dashes
  std::string_view value;  // the value's placeholder in the help text; empty: a switch
  std::string_view help;
};

struct Command {
  std::string_view name;      // "db list"
  std::string_view operands;  // "FILE..."
  std::string_view summary;
  std::span<const TextFlag> flags;
  std::size_t min_operands = 0;
  std::size_t max_operands = 0;
};

std::string help_of(const Command& command);

class Arguments {
 public:
  // Throws ArgError: what was wrong, what was given, what is allowed.
  Arguments(const Command& command, std::span<const std::string> arguments);

  bool help() const { return has("--help"); }
  bool has(std::string_view flag) const;
  std::optional<std::string> value(std::string_view flag) const;  // the last one given
  std::vector<std::string> values(std::string_view flag) const;   // all of them, split at commas
  const std::vector<std::string>& operands() const { return operands_; }

 private:
  std::vector<std::pair<std::string_view, std::string>> flags_;
  std::vector<std::string> operands_;
};

}  // namespace polymio::driver
