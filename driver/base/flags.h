// The table of flags of a command or primitive. A row binds a flag to a variable, whose value before parsing is the
// default; parsing, error texts, --help and the text form of a problem all come from the rows. Depends on the standard
// library and fmt only.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace polymio::driver {

// An invalid command line; the text names the flag, its value and what is allowed.
class ArgError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline constexpr std::int64_t kMaxInt = 2147483647;

struct Choice {
  std::string_view name;
  int value;
};

// The types of flags, with the variable that gets the value.
struct Integer {
  std::int64_t* variable;
  std::int64_t low, high, step = 1;
};
struct Real {
  double* variable;
};
struct Text {
  std::string* variable;
  std::string_view placeholder;  // of the value in --help
};
struct Layout {
  std::string* variable;  // upper case
};
struct Name {
  int* variable;
  std::span<const Choice> choices;
  bool numbered = false;  // the number may be given, too, and is what value_text() shows
};
struct Names {  // separated by commas; may be given repeatedly
  std::vector<int>* variable;
  std::span<const Choice> choices;
};
struct Integers {  // positive integers separated by commas or 'x'
  std::vector<std::int64_t>* variable;
};
struct Texts {  // separated by commas; may be given repeatedly
  std::vector<std::string>* variable;
  std::string_view placeholder;
};
struct Duration {  // "90s", "10m", "2h", "500ms"
  double* seconds;
};
struct Switch {
  bool* variable;
};
using Variable = std::variant<Integer, Real, Text, Layout, Name, Names, Integers, Texts, Duration, Switch>;

// kShape: always in the text of a problem; kOption: in it when not the default; kRun: not part of the problem;
// kAlias: another name of a row above.
enum class Part { kShape, kOption, kRun, kAlias };

struct Flag {
  std::string_view letter;  // may be empty
  std::string_view name;
  Variable variable;
  std::string_view help;
  Part part = Part::kRun;
  int axis = -1;  // the spatial axis that a size belongs to (0 depth, 1 height, 2 width), or -1
};
using Flags = std::vector<Flag>;

struct Command {
  std::string_view name;      // "db list"
  std::string_view operands;  // "FILE..."
  std::string_view summary;
  std::size_t min_operands = 0;
  std::size_t max_operands = 0;
};

struct Parsed {
  std::vector<std::string> operands;
  bool help = false;  // --help was given: no variable has changed
};

// Sets the variables of `flags`; sizes of axes beyond "spatial_dim" are ignored if they are integers. Throws ArgError:
// what was wrong, what was given, what is allowed.
Parsed parse_flags(const Command& command, const Flags& flags, std::span<const std::string> arguments);

// The same; prints the help text and returns nothing when --help is given.
std::optional<std::vector<std::string>> parse_or_help(const Command& command, const Flags& flags,
                                                      std::span<const std::string> arguments);

std::string help_of(const Command& command, const Flags& flags);

// A line per flag, with its default in brackets.
std::string help_of(const Flags& flags);

// "-n --batchsize: bad value '0', allowed: an integer from 1 to 9"
[[noreturn]] void refuse_value(const Flag& flag, std::string_view value, std::string_view allowed);

const Flag& find_row(const Flags& flags, std::string_view name);

// The value as text; empty for an empty text or list, a switch that is off and a name that is not chosen.
std::string value_text(const Flag& flag);

// Integers of the axes beyond `spatial_dim` get their defaults, so that equal problems compare equal. `defaults` has
// the rows of `flags`.
void reset_unused_axes(const Flags& flags, const Flags& defaults, std::int64_t spatial_dim);

// " -n 1 -c 8 ...": the flags of a problem, with `run` those of its run, too.
std::string flags_text(const Flags& flags, const Flags& defaults, std::int64_t spatial_dim, bool run);

}  // namespace polymio::driver
