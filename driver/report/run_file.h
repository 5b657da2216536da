// The JSON form of a run, which --save writes and the command report reads. docs/report.md describes it.
// SPDX-License-Identifier: MIT
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "driver/report/run.h"

namespace polymio::driver {

inline constexpr int kRunVersion = 1;  // increases when an older driver could not read a new file

nlohmann::ordered_json to_json(const Run& run);

// Replaces the file. Throws RunError.
void write_run(const std::string& path, const Run& run);

// Throws RunError: the file, the place in it, what it has there and what is allowed. What it returns is safe to show:
// numbers are finite and not negative, and every problem is a convolution of one direction.
Run parse_run(const std::string& name, const std::string& text);
Run read_run(const std::string& path);

}  // namespace polymio::driver
