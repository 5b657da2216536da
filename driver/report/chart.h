// The report's chart, as SVG text.
// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "driver/report/run.h"

namespace polymio::driver {

// Roofline plot: achieved rate over arithmetic intensity, both logarithmic, with the measured roofs. Empty if the run
// has no peaks.
std::string roofline(const Run& run);

}  // namespace polymio::driver
