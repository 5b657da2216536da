// What the pages share: text as HTML, numbers, the frame of a page.
// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "driver/report/run.h"

namespace polymio::driver {

std::string escape_html(const std::string& text);

// Milliseconds with about three digits and no exponent: "0.0123", "1.23", "123".
std::string ms_text(double ms);

// "1 234 567", with narrow spaces that do not break.
std::string grouped(std::int64_t value);

// The machine in one line: device, model, threads, version, date.
std::string summary_of(const Run& run);

// The name and value pairs of the provenance of a run, in order.
std::vector<std::pair<std::string, std::string>> provenance_of(const Run& run);

// Names of layers and shape of a problem, in a cell.
std::string problem_html(const Measurement& measurement);

// The name of the direction with its mark.
std::string direction_html(Direction direction);

// A page with everything inline; `body` is HTML, `title` text.
std::string page_of(const std::string& title, const std::string& body);

}  // namespace polymio::driver
