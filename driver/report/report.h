// The HTML report: one self-contained page.
// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "driver/base/library.h"
#include "driver/run/result.h"

namespace polymio::driver {

struct ReportInfo {
  std::string title;
  std::string command;                                     // reproduces the page; may be empty
  std::vector<std::pair<std::string, std::string>> facts;  // shown beside the machine's
};

// Throws RunError if the file cannot be written.
void write_report(const Session& session, const ReportInfo& info, const std::vector<Result>& results,
                  const std::string& path);

polymioDevicePeak_t measure_peak(const Session& session);

}  // namespace polymio::driver
