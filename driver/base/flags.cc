// Parses the arguments of a command by its table of flags.
// SPDX-License-Identifier: MIT
#include "driver/base/flags.h"

#include <fmt/format.h>

#include <algorithm>

namespace polymio::driver {
namespace {

constexpr TextFlag kHelp{"--help", "", "this text"};

const TextFlag& find_flag(const Command& command, const std::string& argument) {
  if (argument == "--help" || argument == "-h" || argument == "-?") return kHelp;
  std::string allowed;
  for (const TextFlag& flag : command.flags) {
    if (flag.name == argument) return flag;
    allowed += fmt::format("{} ", flag.name);
  }
  throw ArgError(fmt::format("{}: unknown flag '{}', allowed: {}--help", command.name, argument, allowed));
}

void check_operands(const Command& command, const std::vector<std::string>& operands) {
  if (operands.size() < command.min_operands) {
    throw ArgError(fmt::format("{}: {} of {} arguments given; usage: MIOpenDriver {} {}", command.name, operands.size(),
                               command.min_operands, command.name, command.operands));
  }
  if (operands.size() > command.max_operands) {
    throw ArgError(fmt::format("{}: '{}' is one argument too many; usage: MIOpenDriver {} {}", command.name,
                               operands[command.max_operands], command.name, command.operands));
  }
}

}  // namespace

std::string help_of(const Command& command) {
  std::string text =
      fmt::format("Usage: MIOpenDriver {} {}{}\n{}\n", command.name, command.operands,
                  command.flags.empty() ? "" : (command.operands.empty() ? "[flags]" : " [flags]"), command.summary);
  for (const TextFlag& flag : command.flags) {
    text += fmt::format("  {:<24} {}\n", fmt::format("{} {}", flag.name, flag.value), flag.help);
  }
  return text;
}

Arguments::Arguments(const Command& command, std::span<const std::string> arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].starts_with('-') || arguments[i] == "-") {
      operands_.push_back(arguments[i]);
      continue;
    }
    const TextFlag& flag = find_flag(command, arguments[i]);
    if (flag.value.empty()) {
      flags_.emplace_back(flag.name, "");
    } else if (i + 1 == arguments.size()) {
      throw ArgError(fmt::format("{}: {}: its value ({}) is missing", command.name, flag.name, flag.value));
    } else {
      flags_.emplace_back(flag.name, arguments[++i]);
    }
  }
  if (!help()) check_operands(command, operands_);
}

bool Arguments::has(std::string_view flag) const {
  return std::any_of(flags_.begin(), flags_.end(), [&](const auto& item) { return item.first == flag; });
}

std::optional<std::string> Arguments::value(std::string_view flag) const {
  std::optional<std::string> last;
  for (const auto& [name, text] : flags_) {
    if (name == flag) last = text;
  }
  return last;
}

std::vector<std::string> Arguments::values(std::string_view flag) const {
  std::vector<std::string> all;
  for (const auto& [name, text] : flags_) {
    if (name != flag) continue;
    for (std::size_t start = 0; start <= text.size();) {
      const std::size_t comma = std::min(text.find(',', start), text.size());
      if (comma > start) all.push_back(text.substr(start, comma - start));
      start = comma + 1;
    }
  }
  return all;
}

}  // namespace polymio::driver
