// `MIOpenDriver devices`: the devices, and why a kind of device is absent; `MIOpenDriver warm`.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>

namespace polymio::driver {

int run_devices(std::span<const std::string> arguments);

// Compiles the common GPU programs into the kernel cache.
int run_warm(std::span<const std::string> arguments);

}  // namespace polymio::driver
