// MIOpenDriver's text lines; other programs parse them.
// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "driver/run/conv_problem.h"
#include "driver/run/result.h"

namespace polymio::driver {

// "x 1x3x32x32 fp32 ..., y ...": what is computed.
void print_convolution(const Problem& problem);

void print_solutions(Direction direction, const std::vector<miopenConvSolution_t>& solutions);

// Algorithm, kernel time, stats and, with -w, wall-clock time.
void print_times(const Problem& problem, const Result& result, double wall_ms, double query_ms);

}  // namespace polymio::driver
