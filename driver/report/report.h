// The HTML pages of one run and of the comparison of two: self-contained, readable without JavaScript.
// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "driver/report/run.h"

namespace polymio::driver {

// The page of a run.
std::string report_page(const Run& run);

// The page that compares the run `b` with the run `a`.
std::string comparison_page(const Run& a, const Run& b);

// Writes the page and the JSON of a run; an empty path: not that one. Throws RunError.
void write_report(const Run& run, const std::string& page, const std::string& file);

}  // namespace polymio::driver
