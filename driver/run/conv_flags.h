// The table of the driver's flags: letter, long name, field of ConvArgs, limits and help.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "driver/run/conv_args.h"

namespace polymio::driver {

struct Choice {
  std::string_view name;
  int value;
};

struct Number {
  std::int64_t ConvArgs::*member;
  std::int64_t low, high;
};
struct Real {
  double ConvArgs::*member;
};
struct Text {
  std::string ConvArgs::*member;
};
struct Layout {
  std::string ConvArgs::*member;
};
struct Selection {
  int ConvArgs::*member;
  std::span<const Choice> choices;
};
struct List {
  std::vector<std::int64_t> ConvArgs::*member;
};
struct Switch {
  bool ConvArgs::*member;
};
using Field = std::variant<Number, Real, Text, Layout, Selection, List, Switch>;

// kShape: always in the canonical text; kOption: in it when not the default; kRun: run control, not part of the
// problem.
enum class Part { kShape, kOption, kRun };

// axis: the spatial axis a size belongs to (0 depth, 1 height, 2 width), or -1.
struct Flag {
  std::string_view letter;
  std::string_view name;
  Part part;
  int axis;
  Field field;
  std::string_view help;
};

// In the order of the canonical text and of --help.
std::span<const Flag> flags();

}  // namespace polymio::driver
