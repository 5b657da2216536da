// `MIOpenDriver devices`: what there is to run on, and why the rest is not there.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>

namespace polymio::driver {

int run_devices(std::span<const std::string> arguments);

// `MIOpenDriver warm`: fills the kernel cache.
int run_warm(std::span<const std::string> arguments);

}  // namespace polymio::driver
