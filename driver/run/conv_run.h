// Runs convolution problems: choose, time, verify, print.
// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "driver/base/library.h"
#include "driver/run/conv_args.h"
#include "driver/run/result.h"

namespace polymio::driver {

struct RunOptions {
  bool print = true;                             // print MIOpenDriver's lines on stdout
  bool explain = false;                          // fill Result::explanation
  std::int64_t samples = -1;                     // outputs to verify; 0: all; -1: as -V says
  double seconds = 0;                            // stop the timed runs after this long; 0: run all iterations
  std::vector<unsigned char>* output = nullptr;  // gets the memory of the written tensor
};

// Runs one direction. With --all-solvers returns one result per solution, else one result. Errors become Result::error.
std::vector<Result> run_direction(const Session& session, const ConvArgs& args, Direction direction,
                                  const RunOptions& options);

}  // namespace polymio::driver
