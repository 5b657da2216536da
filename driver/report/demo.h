// The demo: finds, runs and verifies every convolution of ResNet-50 v1.5, then repeats it from the find database.
// SPDX-License-Identifier: MIT
#pragma once

#include "driver/run/conv_args.h"

namespace polymio::driver {

// Returns the process exit status: 0 if everything ran and verified, and the second process searched nothing.
int run_demo(const ConvArgs& args);

}  // namespace polymio::driver
