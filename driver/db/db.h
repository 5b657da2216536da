// 'db': lists, checks, merges and writes database files and packs.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>

namespace polymio::driver {

// `arguments` follow 'db'. Returns the process exit status: 0, or 1 when verify found damage or diff a difference.
int run_db(std::span<const std::string> arguments);

}  // namespace polymio::driver
