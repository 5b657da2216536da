// --from-list: many problems from a file, one result line each.
// SPDX-License-Identifier: MIT
#pragma once

#include "driver/conv_args.h"

namespace polymio::driver {

// The process exit status: 0 if every problem ran and verified.
int run_list(const ConvArgs& args);

}  // namespace polymio::driver
