// What one thread's arithmetic units reach with a data type.
// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace polymio::bench {

/// Operations per second in 1e9 of one thread with "fp32", or with "bf16" or "int8" dot products where the processor
/// has instructions for them. 0 where this is not known.
double peak_gflops(const std::string& dtype);

}  // namespace polymio::bench
