// Conversions of 8-bit floats. A format is given by its exponent bits, 4 or 5, and by fnuz: 1 for MIOpen's formats,
// whose only special code is a NaN in the place of -0, with a bias one larger; 0 for e4m3fn and e5m2 of the OCP.
// SPDX-License-Identifier: MIT
#pragma once

#define FP8_BIAS(exponent, fnuz) ((1 << ((exponent)-1)) - ((fnuz) ? 0 : 1))
#define FP8_NAN(fnuz) ((fnuz) ? 0x80u : 0x7fu)

/// The value of a code that is a number.
INLINE float fp8_number(u32 bits, const int exponent, const int bias) {
  const int mantissa = 7 - exponent;
  const u32 body = bits & 0x7fu, sign = (bits & 0x80u) << 24;
  if (body < 1u << mantissa) {
    const float v = (float)(int)body * FLOAT_OF_BITS((u32)(128 - bias - mantissa) << 23);
    return sign ? -v : v;
  }
  return FLOAT_OF_BITS(sign | ((body << (23 - mantissa)) + ((u32)(127 - bias) << 23)));
}

#if defined(__CUDA_ARCH__)
// NVRTC 12.0 does not have these instructions for sm_89.
#if __CUDA_ARCH__ >= 900 || (__CUDA_ARCH__ == 890 && (__CUDACC_VER_MAJOR__ > 12 || __CUDACC_VER_MINOR__ > 0))
#define HAS_FP8_CONVERSIONS
#endif
#endif

#ifdef HAS_FP8_CONVERSIONS

INLINE float float_of_ocp(u32 bits, const int exponent) {
  u32 halves;
  if (exponent == 4)
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"((u16)bits));
  else
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"((u16)bits));
  return float_of_half((u16)halves);
}
INLINE u32 ocp_of_float(float v, const int exponent) {
  u16 pair;
  if (exponent == 4)
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(v));
  else
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(v));
  return pair;
}

#else

INLINE float float_of_ocp(u32 bits, const int exponent) {
  const u32 body = bits & 0x7fu, sign = (bits & 0x80u) << 24;
  if (body == 0x7cu && exponent == 5) return FLOAT_OF_BITS(sign | 0x7f800000u);
  if (body > (exponent == 4 ? 0x7eu : 0x7cu)) return FLOAT_OF_BITS(sign | 0x7fc00000u);
  return fp8_number(bits, exponent, FP8_BIAS(exponent, 0));
}

/// The magnitude of the rounded absolute value, without an upper limit, of a number.
INLINE u32 fp8_body(float v, const int exponent, const int bias) {
  const int mantissa = 7 - exponent;
  const u32 u = BITS_OF_FLOAT(v);
  const int raw = (int)((u >> 23) & 0xffu), e = raw == 0 ? -126 : raw - 127, subnormal = e < 1 - bias;
  const int dropped_bits = 23 - mantissa + (subnormal ? 1 - bias - e : 0);
  if (dropped_bits > 25) return 0;  // less than half of the smallest subnormal
  u32 m = (u & 0x7fffffu) | (raw == 0 ? 0u : 0x800000u);
  m = (m + (1u << (dropped_bits - 1)) - 1 + ((m >> dropped_bits) & 1u)) >> dropped_bits;
  return ((u32)(subnormal ? 0 : e + bias - 1) << mantissa) + m;
}
INLINE u32 ocp_of_float(float v, const int exponent) {
  const u32 body = fp8_body(v, exponent, FP8_BIAS(exponent, 0)), max_value = exponent == 4 ? 0x7eu : 0x7bu;
  if (v != v) return FP8_NAN(0);
  return ((BITS_OF_FLOAT(v) >> 24) & 0x80u) | MIN(body, max_value);
}

#endif

INLINE float float_of_fp8(u32 bits, const int exponent, const int fnuz) {
  if (!fnuz) return float_of_ocp(bits, exponent);
  if (bits == FP8_NAN(1)) return FLOAT_OF_BITS(0x7fc00000u);
  return fp8_number(bits, exponent, FP8_BIAS(exponent, 1));
}

/// Rounds to nearest, ties to even, and saturates. Infinities are NaNs in FNUZ formats.
INLINE u32 fp8_of_float(float v, const int exponent, const int fnuz) {
  if (!fnuz) return ocp_of_float(v, exponent);
  const u32 u = BITS_OF_FLOAT(v);
  if ((u & 0x7fffffffu) >= 0x7f800000u) return FP8_NAN(1);
#ifdef HAS_FP8_CONVERSIONS
  // The code of v is the OCP code of 2 v, or one exponent step above the OCP code of v, where that has all its bits.
  const int large = (u & 0x7fffffffu) >= 0x3f800000u;  // at least 1
  const u32 body = (ocp_of_float(large ? v : v + v, exponent) & 0x7fu) + (large ? 1u << (7 - exponent) : 0u);
#else
  const u32 body = fp8_body(v, exponent, FP8_BIAS(exponent, 1));
#endif
  return body == 0 ? 0u : ((u >> 24) & 0x80u) | MIN(body, 0x7fu);
}

/// Rounds up in proportion to what is dropped: adds 23 random bits below the bits that stay. Saturates.
INLINE u32 fp8_of_float_dithered(float v, const int exponent, const int fnuz, u32 dither) {
  const int mantissa = 7 - exponent, bias = FP8_BIAS(exponent, fnuz);
  const u32 u = BITS_OF_FLOAT(v), magnitude = u & 0x7fffffffu, sign = (u >> 24) & 0x80u;
  const u32 max_value = fnuz ? 0x7fu : exponent == 4 ? 0x7eu : 0x7bu;
  if (v != v || (fnuz && magnitude == 0x7f800000u)) return FP8_NAN(fnuz);
  const int raw = (int)(magnitude >> 23), e = raw == 0 ? -126 : raw - 127, subnormal = e < 1 - bias;
  const int dropped_bits = MIN(23 - mantissa + (subnormal ? 1 - bias - e : 0), 62), shift = dropped_bits - 23;
  u64 m = (u & 0x7fffffu) | (raw == 0 ? 0u : 0x800000u);
  m += shift > 0 ? (u64)dither << shift : (u64)(dither >> -shift);
  const u32 body = ((u32)(subnormal ? 0 : e + bias - 1) << mantissa) + (u32)(m >> dropped_bits);
  return (fnuz && body == 0 ? 0u : sign) | MIN(body, max_value);
}

/// 23 random bits for element i: convolution::dither().
INLINE u32 dither_of(u64 seed, u64 i) {
  u64 h = (seed ^ i) * ((u64)0x9e3779b9u << 32 | 0x7f4a7c15u);
  h = (h ^ (h >> 29) ^ ((u64)0x94d049bbu << 32 | 0x133111ebu)) * ((u64)0x9e3779b9u << 32 | 0x7f4a7c15u);
  return (u32)(h ^ (h >> 29)) & 0x7fffffu;
}

#ifdef FP64
/// Round to odd: truncates and sets the last bit where inexact. Rounding the result to a narrower format then equals
/// rounding the double itself.
INLINE float round_to_odd(double v) {
  const float f = (float)v;
  const double rounded = (double)f;
  if (rounded == v || v != v) return f;
  const int rounded_up = (rounded < 0 ? -rounded : rounded) > (v < 0 ? -v : v);
  return FLOAT_OF_BITS((BITS_OF_FLOAT(f) - (rounded_up ? 1u : 0u)) | 1u);
}
#define NARROWED(v) round_to_odd(v)
#else
#define NARROWED(v) (v)
#endif

// Numbers of codes, rounded numbers, loads and stores by name, as in portable.h.
#define FP8_ELEMENTS(name, exponent, fnuz)                                                                           \
  typedef u8 stored_##name;                                                                                          \
  INLINE float number_##name(u32 code) { return float_of_fp8(code, exponent, fnuz); }                                \
  INLINE u32 code_##name(real v) { return fp8_of_float(NARROWED(v), exponent, fnuz); }                               \
  INLINE u32 dithered_code_##name(float v, u64 seed, i64 i) {                                                        \
    return fp8_of_float_dithered(v, exponent, fnuz, dither_of(seed, (u64)i));                                        \
  }                                                                                                                  \
  INLINE float rounded_##name(real v) { return number_##name(code_##name(v)); }                                      \
  INLINE float dithered_##name(float v, u64 seed, i64 i) { return number_##name(dithered_code_##name(v, seed, i)); } \
  INLINE float load_##name(GLOBAL const u8* p, i64 i) { return number_##name(p[i]); }                                \
  INLINE void store_##name(GLOBAL u8* p, i64 i, real v) { p[i] = (u8)code_##name(v); }                               \
  INLINE void store_dithered_##name(GLOBAL u8* p, i64 i, float v, u64 seed) {                                        \
    p[i] = (u8)dithered_code_##name(v, seed, i);                                                                     \
  }
FP8_ELEMENTS(fp8, 4, 1)
FP8_ELEMENTS(bfp8, 5, 1)
FP8_ELEMENTS(fp8_e4m3fn, 4, 0)
FP8_ELEMENTS(fp8_e5m2, 5, 0)
