// Peak arithmetic throughput of one thread by data type.
// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace polymio::bench {

/// Peak of one thread in GFLOP/s (int8: 1e9 operations/s) for "fp32", and for "bf16" or "int8" dot products where the
/// processor has instructions for them; 0 if unknown.
double peak_gflops(const std::string& dtype);

}  // namespace polymio::bench
