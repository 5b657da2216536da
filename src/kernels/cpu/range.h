// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace polymio::kernels {

/// [first, end), empty if end <= first.
struct Range {
  std::int64_t first = 0, end = 0;
  constexpr std::int64_t count() const { return end > first ? end - first : 0; }
};

}  // namespace polymio::kernels
