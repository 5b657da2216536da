// --from-list: many problems from a file, one result line each.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "driver/run/conv_args.h"
#include "driver/run/operation.h"

namespace polymio::driver {

struct ListItem {
  std::int64_t number;  // line of the file
  ConvArgs args;
};

// The convolutions of a file of driver lines. Lines of other primitives are skipped with a note on standard error.
// Throws ArgError.
std::vector<ListItem> read_list(const std::string& path);

// All lines of a file of driver lines as operations. Those of primitives without solvers are skipped with a note on
// standard error. Throws ArgError.
std::vector<std::unique_ptr<Operation>> read_operations(const std::string& path);

// Relative cost of one direction, for progress bars and budgets; includes a constant cost per call.
double cost(const ConvArgs& args);

// Runs the lines of the list of `outer` that are of its primitive; its flags are the defaults of the lines. Returns the
// process exit status: 0 if every problem ran and verified.
int run_list(const Operation& outer, const Primitive& primitive);

}  // namespace polymio::driver
