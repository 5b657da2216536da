// The demo: every convolution of ResNet-50 v1.5, found, run and verified; then once more from the
// find database.
// SPDX-License-Identifier: MIT
#pragma once

#include "driver/conv_args.h"

namespace polymio::driver {

// The process exit status: 0 if everything ran, verified, and the second process did no search.
int run_demo(const ConvArgs& args);

}  // namespace polymio::driver
