// How a run came about: the program, the command, the machine, the time.
// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "driver/base/library.h"
#include "driver/report/run.h"

namespace polymio::driver {

// A run without measurements. Measures the device (0.15 s) and the clock. Throws RunError.
Run begin_run(const Session& session, const std::string& title);

// The clock of a core in GHz, now, in some milliseconds; 0 where there is no way to measure it.
double measure_clock();

}  // namespace polymio::driver
