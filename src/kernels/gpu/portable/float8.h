// Conversions of 8-bit floats.
// SPDX-License-Identifier: MIT
#pragma once

/// Decodes an 8-bit float with `exponent` exponent bits; finite_top: the largest exponent encodes numbers (E4M3).
INLINE float float_of_fp8(u32 bits, const int exponent, const int finite_top) {
  const int mantissa = 7 - exponent, bias = (1 << (exponent - 1)) - 1;
  const u32 top = (1u << exponent) - 1, mask = (1u << mantissa) - 1, e = (bits >> mantissa) & top, m = bits & mask;
  const u32 sign = (bits & 0x80u) << 24;
  if (e == 0) {
    const float v = (float)(int)m * FLOAT_OF_BITS((u32)(128 - bias - mantissa) << 23);
    return sign ? -v : v;
  }
  if (finite_top ? e == top && m == mask : e == top)
    return FLOAT_OF_BITS(sign | 0x7f800000u | (finite_top || m ? 0x400000u : 0u));
  return FLOAT_OF_BITS(sign | (e + 127 - (u32)bias) << 23 | m << (23 - mantissa));
}

/// Rounds to nearest, ties to even, and saturates.
INLINE u32 fp8_of_float(float v, const int exponent, const int finite_top) {
  const int mantissa = 7 - exponent, bias = (1 << (exponent - 1)) - 1;
  const u32 infinity_bits = ((1u << exponent) - 1) << mantissa, mask = (1u << mantissa) - 1;
  const u32 max_value = finite_top ? infinity_bits | (mask - 1) : infinity_bits - 1;
  const u32 nan_bits = finite_top ? infinity_bits | mask : infinity_bits | (1u << (mantissa - 1));
  const u32 u = BITS_OF_FLOAT(v), sign = (u >> 31) << 7;
  if (v != v) return sign | nan_bits;
  const int raw = (int)((u >> 23) & 0xffu), e = raw == 0 ? -126 : raw - 127, subnormal = e < 1 - bias;
  const int dropped_bits = 23 - mantissa + (subnormal ? 1 - bias - e : 0);
  if (dropped_bits > 25) return sign;  // less than half of the smallest subnormal
  u32 m = (u & 0x7fffffu) | (raw == 0 ? 0u : 0x800000u);
  m = (m + (1u << (dropped_bits - 1)) - 1 + ((m >> dropped_bits) & 1u)) >> dropped_bits;
  const u32 code = ((u32)(subnormal ? 0 : e + bias - 1) << mantissa) + m;
  return sign | MIN(code, max_value);
}
