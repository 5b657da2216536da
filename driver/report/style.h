// The report's style sheet.
// SPDX-License-Identifier: MIT
#pragma once

namespace polymio::driver {

const char* report_style();

}  // namespace polymio::driver
