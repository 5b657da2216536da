// Integer arithmetic. Internal linkage: kernels of several instruction sets include this file, and the linker must not
// merge their code.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace polymio {

/// a / b rounded up, for a >= 0 and b > 0.
[[maybe_unused]] static constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The smallest multiple of `unit` that is not below `value`.
[[maybe_unused]] static constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return ceil_div(value, unit) * unit;
}

}  // namespace polymio
