// 'options': the trade between time and workspace.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>

namespace polymio::driver {

// `arguments` follow 'options': a problem. Returns the process exit status.
int run_options(std::span<const std::string> arguments);

}  // namespace polymio::driver
