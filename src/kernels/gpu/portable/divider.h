// Division by multiplication with a reciprocal that the host prepares. Shared with the host.
// SPDX-License-Identifier: MIT
#pragma once
#ifndef KERNEL
#include <bit>
#include <cstdint>
namespace polymio::kernels {
using u32 = std::uint32_t;
#endif

/// For 0 <= n < 2^31, n / divisor is (high 32 bits of n * multiplier + n) >> shift.
typedef struct Divider {
  u32 divisor, multiplier, shift;
} Divider;

#ifdef KERNEL
INLINE int divide(int n, Divider d) { return (int)(((u32)(((u64)(u32)n * d.multiplier) >> 32) + (u32)n) >> d.shift); }
#else
/// The divisor is from 1 to 2^31.
inline Divider make_divider(std::int64_t divisor) {
  const auto d = static_cast<std::uint64_t>(divisor);
  const int shift = std::bit_width(d - 1);
  const std::uint64_t multiplier = (((std::uint64_t{1} << shift) - d) << 32) / d + 1;
  return {static_cast<u32>(d), static_cast<u32>(multiplier), static_cast<u32>(shift)};
}
}  // namespace polymio::kernels
#endif
