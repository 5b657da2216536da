// The bias of a convolution's output (-b 1 of conv).
// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "driver/run/conv_data.h"
#include "driver/run/result.h"

namespace polymio::driver {

// Forward: adds a bias to the written output. Backward: sums the output gradient per channel. Returns the line to
// print; a wrong result clears result.verified.
std::string run_bias(const Session& session, const Problem& problem, TensorData& data, bool verify, Result& result);

}  // namespace polymio::driver
