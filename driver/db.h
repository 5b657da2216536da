// 'db': looks into database files and packs, and makes new ones.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>

namespace polymio::driver {

// `words` follow 'db'. The process exit status: 0, or 1 when verify found damage or diff a difference.
int run_db(std::span<const std::string> arguments);

}  // namespace polymio::driver
