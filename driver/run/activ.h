// Runs activation problems: time, verify, print.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>

namespace polymio::driver {

// Returns the process exit status: 0 if everything ran and verified.
int run_activ(std::span<const std::string> arguments);

}  // namespace polymio::driver
