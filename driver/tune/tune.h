// 'tune': tunes the problems of a list within a budget, over jobs, devices and ranks.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>

namespace polymio::driver {

// `arguments` follow 'tune'. Returns 0: all is tuned; 3: the budget or a signal ended it before; 1: a problem failed.
int run_tune(std::span<const std::string> arguments);

}  // namespace polymio::driver
