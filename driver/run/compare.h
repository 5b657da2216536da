// `--compare cpu,cuda:0`: the same problem, on the same data, on two devices.
// SPDX-License-Identifier: MIT
#pragma once

#include "driver/run/conv_args.h"

namespace polymio::driver {

// Runs every direction of -F on both devices, prints times and the difference of the results. Returns 0 if everything
// ran and verified and the results agree.
int run_compare(const ConvArgs& args);

}  // namespace polymio::driver
