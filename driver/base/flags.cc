// One function per use of the table; each visits the type of a row.
// SPDX-License-Identifier: MIT
#include "driver/base/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace polymio::driver {
namespace {

constexpr std::size_t kListedFlags = 12;  // an error text for a longer table refers to --help

template <class... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <class... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

bool is_help(std::string_view argument) { return argument == "--help" || argument == "-h" || argument == "-?"; }

// "-n", or "--name" when the flag has no letter or one that is special to shells.
std::string spelling(const Flag& flag) {
  const bool plain = !flag.letter.empty() && std::isalpha(static_cast<unsigned char>(flag.letter[0])) != 0;
  return plain ? fmt::format("-{}", flag.letter) : fmt::format("--{}", flag.name);
}

std::string placeholder(const Flag& flag) {
  return std::visit(
      Overloaded{[](const Integer&) { return std::string("N"); }, [](const Real&) { return std::string("X"); },
                 [](const Text& text) { return std::string(text.placeholder); },
                 [](const Layout&) { return std::string("LAYOUT"); }, [](const Name&) { return std::string("NAME"); },
                 [](const Names&) { return std::string("NAME[,..]"); },
                 [](const Integers&) { return std::string("N[,..]"); },
                 [](const Texts& texts) { return fmt::format("{}[,..]", texts.placeholder); },
                 [](const Duration&) { return std::string("TIME"); }, [](const Switch&) { return std::string(); }},
      flag.variable);
}

template <class T>
bool read_number(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  return result.ec == std::errc() && result.ptr == end;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separators = ",") {
  std::vector<std::string_view> parts;
  for (std::size_t end; (end = text.find_first_of(separators)) != std::string_view::npos; text.remove_prefix(end + 1)) {
    parts.push_back(text.substr(0, end));
  }
  parts.push_back(text);
  return parts;
}

std::string names_of(std::span<const Choice> choices) {
  std::string names;
  for (const Choice& choice : choices) names += fmt::format("{}{}", names.empty() ? "" : " ", choice.name);
  return names;
}

struct Assign {
  const Flag& flag;
  std::string_view text;

  void operator()(const Integer& type) const {
    std::int64_t value = 0;
    if (!read_number(text, value) || value < type.low || value > type.high || (value - type.low) % type.step != 0) {
      refuse_value(flag, text,
                   type.low == type.high ? fmt::format("{}", type.low)
                   : type.step > 1       ? fmt::format("{} or {}", type.low, type.high)
                                         : fmt::format("an integer from {} to {}", type.low, type.high));
    }
    *type.variable = value;
  }
  void operator()(const Real& type) const {
    double value = 0;
    if (!read_number(text, value) || !std::isfinite(value)) refuse_value(flag, text, "a finite number");
    *type.variable = value;
  }
  void operator()(const Text& type) const { *type.variable = text; }
  void operator()(const Layout& type) const {
    std::string upper(text);
    for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    *type.variable = upper;
  }
  void operator()(const Name& type) const {
    int number = 0;
    const auto has_number = [&](const Choice& choice) { return choice.value == number; };
    const bool given = type.numbered && read_number(text, number) && std::ranges::any_of(type.choices, has_number);
    *type.variable = given ? number : choose(type.choices, text, type.numbered);
  }
  void operator()(const Names& type) const {
    for (const std::string_view name : split(text)) type.variable->push_back(choose(type.choices, name));
  }
  void operator()(const Integers& type) const {
    std::vector<std::int64_t> values;
    for (const std::string_view part : split(text, ",x")) {
      if (!read_number(part, values.emplace_back()) || values.back() < 1) {
        refuse_value(flag, text, "positive integers separated by commas, one per dimension");
      }
    }
    *type.variable = std::move(values);
  }
  void operator()(const Texts& type) const {
    for (const std::string_view part : split(text)) {
      if (!part.empty()) type.variable->emplace_back(part);
    }
  }
  void operator()(const Duration& type) const {
    static constexpr std::pair<std::string_view, double> kUnits[] = {{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
    const auto* const unit =
        std::find_if(std::begin(kUnits), std::end(kUnits), [&](const auto& u) { return text.ends_with(u.first); });
    double value = 0;
    if (unit == std::end(kUnits) || !read_number(text.substr(0, text.size() - unit->first.size()), value) ||
        !std::isfinite(value) || value <= 0) {
      refuse_value(flag, text, "a positive number with a unit, as in 90s, 10m, 2h");
    }
    *type.seconds = value * unit->second;
  }
  void operator()(const Switch& type) const { *type.variable = true; }

  int choose(std::span<const Choice> choices, std::string_view name, bool numbered = false) const {
    for (const Choice& choice : choices) {
      if (choice.name == name) return choice.value;
    }
    refuse_value(flag, name, names_of(choices) + (numbered ? " or its number" : ""));
  }
};

const Flag& find_flag(const Command& command, const Flags& flags, std::string_view argument) {
  for (const Flag& flag : flags) {
    if (argument.starts_with("--") && argument.substr(2) == flag.name) return flag;
    if (!flag.letter.empty() && argument.starts_with('-') && argument.substr(1) == flag.letter) return flag;
  }
  if (flags.size() > kListedFlags) {
    throw ArgError(fmt::format("{0}: unknown flag '{1}'; 'MIOpenDriver {0} --help' lists the allowed flags",
                               command.name, argument));
  }
  std::string allowed;
  for (const Flag& flag : flags) allowed += spelling(flag) + ' ';
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

bool is_unused(const Flag& flag, std::int64_t spatial_dim) { return flag.axis >= 0 && flag.axis < 3 - spatial_dim; }

// Sizes come last, as --spatial_dim says which of them exist. A size of an axis that does not is only read: lines of
// other programs have zeros there.
void assign(const Flags& flags, const std::vector<Assign>& values) {
  for (const Assign& value : values) {
    if (value.flag.axis < 0) std::visit(value, value.flag.variable);
  }
  const auto row = std::ranges::find(flags, std::string_view("spatial_dim"), &Flag::name);
  const std::int64_t spatial_dim = row == flags.end() ? 3 : *std::get<Integer>(row->variable).variable;
  for (const Assign& value : values) {
    if (value.flag.axis < 0) continue;
    std::int64_t ignored = 0;
    if (!is_unused(value.flag, spatial_dim)) {
      std::visit(value, value.flag.variable);
    } else if (!read_number(value.text, ignored)) {
      refuse_value(value.flag, value.text, "an integer");
    }
  }
}

}  // namespace

void refuse_value(const Flag& flag, std::string_view value, std::string_view allowed) {
  const std::string letter = flag.letter.empty() ? "" : fmt::format("-{} ", flag.letter);
  throw ArgError(fmt::format("{}--{}: bad value '{}', allowed: {}", letter, flag.name, value, allowed));
}

const Flag& find_row(const Flags& flags, std::string_view name) {
  return *std::find_if(flags.begin(), flags.end(), [&](const Flag& flag) { return flag.name == name; });
}

Parsed parse_flags(const Command& command, const Flags& flags, std::span<const std::string> arguments) {
  Parsed parsed;
  std::vector<Assign> values;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (is_help(argument)) {
      parsed.help = true;
    } else if (command.max_operands > 0 && (!argument.starts_with('-') || argument == "-")) {
      parsed.operands.push_back(argument);
    } else if (const Flag& flag = find_flag(command, flags, argument); std::holds_alternative<Switch>(flag.variable)) {
      values.push_back({flag, ""});
    } else if (i + 1 == arguments.size()) {
      throw ArgError(fmt::format("{}: {}: its value ({}) is missing", command.name, argument, placeholder(flag)));
    } else {
      values.push_back({flag, arguments[++i]});
    }
  }
  if (parsed.help) return parsed;
  check_operands(command, parsed.operands);
  assign(flags, values);
  return parsed;
}

std::optional<std::vector<std::string>> parse_or_help(const Command& command, const Flags& flags,
                                                      std::span<const std::string> arguments) {
  Parsed parsed = parse_flags(command, flags, arguments);
  if (!parsed.help) return std::move(parsed.operands);
  fmt::print("{}", help_of(command, flags));
  return std::nullopt;
}

std::string help_of(const Command& command, const Flags& flags) {
  return fmt::format("Usage: MIOpenDriver {}{}{}{}\n{}\n{}", command.name, command.operands.empty() ? "" : " ",
                     command.operands, flags.empty() ? "" : " [flags]", command.summary, help_of(flags));
}

std::string help_of(const Flags& flags) {
  std::string text;
  for (const Flag& flag : flags) {
    const std::string letter = flag.letter.empty() ? "    " : fmt::format("-{}, ", flag.letter);
    std::string help(flag.help);
    if (const auto* name = std::get_if<Name>(&flag.variable)) help += ": " + names_of(name->choices);
    if (const auto* names = std::get_if<Names>(&flag.variable)) help += ": " + names_of(names->choices);
    const std::string preset = value_text(flag);
    text += fmt::format("  {}--{:<24} {}{}\n", letter, fmt::format("{} {}", flag.name, placeholder(flag)), help,
                        preset.empty() ? "" : fmt::format(" [{}]", preset));
  }
  return text;
}

std::string value_text(const Flag& flag) {
  return std::visit(
      Overloaded{[](const Integer& type) { return fmt::format("{}", *type.variable); },
                 [](const Real& type) { return fmt::format("{}", *type.variable); },
                 [](const Text& type) { return *type.variable; }, [](const Layout& type) { return *type.variable; },
                 [](const Name& type) {
                   if (type.numbered) return fmt::format("{}", *type.variable);
                   for (const Choice& choice : type.choices) {
                     if (choice.value == *type.variable) return std::string(choice.name);
                   }
                   return std::string();
                 },
                 [](const Names&) { return std::string(); },
                 [](const Integers& type) { return fmt::format("{}", fmt::join(*type.variable, ",")); },
                 [](const Texts& type) { return fmt::format("{}", fmt::join(*type.variable, ",")); },
                 [](const Duration& type) {
                   return *type.seconds > 0 ? fmt::format("{:g}ms", *type.seconds * 1e3) : std::string();
                 },
                 [](const Switch& type) { return std::string(*type.variable ? "on" : ""); }},
      flag.variable);
}

void reset_unused_axes(const Flags& flags, const Flags& defaults, std::int64_t spatial_dim) {
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (!is_unused(flags[i], spatial_dim)) continue;
    *std::get<Integer>(flags[i].variable).variable = *std::get<Integer>(defaults[i].variable).variable;
  }
}

std::string flags_text(const Flags& flags, const Flags& defaults, std::int64_t spatial_dim, bool run) {
  std::string text;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    const Flag& flag = flags[i];
    if (flag.part == Part::kAlias || (flag.part == Part::kRun && !run) || is_unused(flag, spatial_dim)) continue;
    const std::string value = value_text(flag);
    if (flag.part != Part::kShape && value == value_text(defaults[i])) continue;
    text += ' ' + spelling(flag);
    if (!std::holds_alternative<Switch>(flag.variable)) text += ' ' + value;
  }
  return text;
}

}  // namespace polymio::driver
