// The flags of the base arguments activ, activfp16, activbfp16 and activfp64, parsed to a plain struct.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driver/run/conv_args.h"

namespace polymio::driver {

struct ActivArgs {
  int type = kFloat;
  std::vector<std::int64_t> lens;
  // x and y, then dx and dy, in N, C, [D], H, W order.
  std::vector<std::int64_t> x_strides, y_strides, dx_strides, dy_strides;
  int mode = 3;
  std::int64_t directions = 3;  // bit 1 forward, bit 2 backward
  double alpha = 0, beta = 0, gamma = 1;
  double scale = 1, keep = 0;
  std::int64_t iterations = 10, verify = 1, time = 0, search = 0;
  std::string solver;  // empty: the library's choice
  std::string device;
  bool help = false;
};

// The base arguments, separated by blanks.
std::string activ_bases();

bool is_activ(const std::string& argument);

// Throws ArgError, naming `command`, when one of the arguments is a base argument of this file.
void refuse_activ(std::string_view command, std::span<const std::string> arguments);

// Parses the arguments after the program name. Throws ArgError: what was wrong, what was given, what is allowed.
ActivArgs parse_activ(std::span<const std::string> arguments);

std::string activ_help();

const char* activ_mode_name(int mode);

}  // namespace polymio::driver
