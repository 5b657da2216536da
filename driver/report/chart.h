// The report's charts, as SVG text.
// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "driver/base/library.h"
#include "driver/run/result.h"

namespace polymio::driver {

std::string escape_html(const std::string& text);

// Name of a result's row: its layer, else shape_text().
std::string row_name(const Result& result);
// Results with equal keys share a row, one cell per direction.
std::string row_key(const Result& result);

// Roofline plot: achieved rate over arithmetic intensity, both logarithmic, with the measured roofs.
std::string roofline(const std::vector<Result>& results, const polymioDevicePeak_t& peak);

// A panel per direction, a bar per row: percent of the measured peak, with the time.
std::string bars(const std::vector<Result>& results, const polymioDevicePeak_t& peak);

}  // namespace polymio::driver
