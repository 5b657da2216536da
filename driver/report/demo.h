// The demo: finds, runs and verifies every convolution of ResNet-50 v1.5, then repeats it from the find database.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>

namespace polymio::driver {

// Returns the process exit status: 0 if everything ran and verified, and the second process searched nothing.
// `arguments` follow 'demo'.
int run_demo(std::span<const std::string> arguments);

}  // namespace polymio::driver
