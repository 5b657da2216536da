// Parts of bf16 that add up to an element of fp32.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/portable.h"

/// Whether three parts of these bits are not all normal numbers or zeros, or products of parts may be infinite:
/// magnitudes below 2^-110 but 0, from 2^63 on, infinities and NaN.
INLINE u32 has_no_parts(u32 bits) {
  const u32 least = 0x08800000u, limit = 0x5f000000u, magnitude = bits & 0x7fffffffu;
  return magnitude != 0 && magnitude - least >= limit - least;
}
