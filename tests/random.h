// SPDX-License-Identifier: MIT
#pragma once
#include <random>

namespace polymio::test {

/// Uniform in [-1, 1). std::uniform_real_distribution computes two logarithms per number unless the compiler knows
/// them.
inline double random_unit(std::mt19937_64& engine) { return static_cast<double>(engine() >> 11) * 0x1p-52 - 1; }

}  // namespace polymio::test
