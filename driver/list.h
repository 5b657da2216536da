// --from-list: many problems from a file, one result line each.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "driver/conv_args.h"

namespace polymio::driver {

struct ListItem {
  std::int64_t number;  // line of the file
  ConvArgs args;
};

// The convolutions of a file of driver lines; `defaults` for flags that a line does not give. `others` counts lines
// of other primitives; without it such a line is an error. Throws ArgError.
std::vector<ListItem> read_list(const std::string& path, const ConvArgs& defaults, std::size_t* others = nullptr);

// Work of one direction, for bars and budgets: a call costs something however small the problem.
double cost(const ConvArgs& args);

// The process exit status: 0 if every problem ran and verified.
int run_list(const ConvArgs& args);

}  // namespace polymio::driver
