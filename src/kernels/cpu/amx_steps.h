// How AMX cuts the summed dimension.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace polymio::kernels {

/// Depth steps per AMX tile register, at most 16: equal parts of `depth` with at least 8 steps if possible, else 16 and
/// a remainder.
constexpr std::int64_t amx_steps(std::int64_t depth) {
  constexpr std::int64_t kMost = 16, kFew = 8;
  if (depth <= kMost) return depth;
  std::int64_t parts = (depth + kMost - 1) / kMost;
  while (depth % parts != 0 && depth / parts >= kFew) ++parts;
  return depth / parts < kFew ? kMost : depth / parts;
}

}  // namespace polymio::kernels
