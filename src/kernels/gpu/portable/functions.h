// Elementary functions in the arithmetic of -DNUM, float or double: square root, e^x, e^x - 1, log(1 + x) on the ranges
// that activations need, and pow in double. Accurate to a few ulp, infinities, NaN and subnormal numbers included. The
// series have exact coefficients, so results are the same on every device.
// SPDX-License-Identifier: MIT
#pragma once

// ln 2 = LN2_HIGH + LN2_LOW; the multiples of LN2_HIGH used here are exact. e^x is 0 below EXP_LOW and infinity above
// EXP_HIGH; e^x - 1 is -1 below EXPM1_LOW. Adding SHIFT leaves the rounded integer in the low bits.
#if NUMBERS == NUMBERS_double
typedef i64 num_int;
#define NUM_OF_BITS(u) DOUBLE_OF_BITS(u)
#define BITS_OF_NUM(v) ((i64)BITS_OF_DOUBLE(v))
#define FRACTION 52
#define BIAS 1023
#define EXP_TERMS 13
#define LOG_TERMS 17
#define SHIFT 6755399441055744.0
#define LN2_HIGH 0x1.62e42fefa38p-1
#define LN2_LOW 0x1.ef35793c7673p-45
#define EXP_LOW -746
#define EXP_HIGH 710
#define EXPM1_LOW -50
#else
typedef int num_int;
#define NUM_OF_BITS(u) FLOAT_OF_BITS((u32)(u))
#define BITS_OF_NUM(v) ((int)BITS_OF_FLOAT(v))
#define FRACTION 23
#define BIAS 127
#define EXP_TERMS 7
#define LOG_TERMS 8
#define SHIFT 12582912.0f
#define LN2_HIGH 0x1.62e4p-1f
#define LN2_LOW 0x1.7f7d1cp-20f
#define EXP_LOW -104
#define EXP_HIGH 89
#define EXPM1_LOW -30
#endif

INLINE num abs_of(num v) { return v < 0 ? -v : v; }
INLINE num sqrt_of(num v) {
#if !defined(__HIP__) && !defined(__HIPCC_RTC__)
  return sqrt(v);
#elif NUMBERS == NUMBERS_double
  return __builtin_sqrt(v);
#else
  return __builtin_sqrtf(v);
#endif
}
/// a / b for |a| <= 1 and b from 1 to 4 without the branch that divisions take for other operands. Rounded as a
/// division is, in fp32 where |a| is at least 2^-100; else within an ulp. It takes more registers than the division: a
/// kernel that has none to spare defines NO_SPARE_REGISTERS.
INLINE num quotient_of(num a, num b) {
#if defined(__CUDA_ARCH__) && NUMBERS != NUMBERS_double && !defined(NO_SPARE_REGISTERS)
  float reciprocal;
  asm("rcp.approx.f32 %0, %1;" : "=f"(reciprocal) : "f"(b));
  reciprocal = FMA(FMA(-b, reciprocal, 1), reciprocal, reciprocal);
  const float first = a * reciprocal, second = FMA(FMA(-b, first, a), reciprocal, first);
  return FMA(FMA(-b, second, a), reciprocal, second);
#else
  return a / b;
#endif
}
INLINE num power_of_two(num_int n) { return NUM_OF_BITS((n + BIAS) << FRACTION); }

/// Argument reduction: e^x = 2^n (1 + p), |p| <= sqrt(2) - 1, with a small relative error in p.
INLINE num reduce_exp(num x, num_int* n) {
  const num shifted = x * (num)1.4426950408889634074 + SHIFT, rounded = shifted - SHIFT;
  const num r = (x - rounded * LN2_HIGH) - rounded * LN2_LOW;
  num sum = 1;
  UNROLL
  for (int k = EXP_TERMS; k >= 3; --k) sum = 1 + sum * (r * ((num)1 / (num)k));
  *n = BITS_OF_NUM(shifted) - BITS_OF_NUM((num)SHIFT);
  return r + sum * (r * r * (num)0.5);
}

INLINE num exp_of(num x) {
  x = x < EXP_LOW ? EXP_LOW : x > EXP_HIGH ? EXP_HIGH : x;  // keeps NaN
  num_int n;
  const num p = reduce_exp(x, &n);
  // Two factors: neither overflows, and a subnormal result is rounded once.
  const num_int first = n >> 1;
  const num scale = power_of_two(first);
  return (p * scale + scale) * power_of_two(n - first);
}

/// e^x - 1 for x <= 0.
INLINE num expm1_nonpositive(num x) {
  num_int n;
  const num p = reduce_exp(x < EXPM1_LOW ? EXPM1_LOW : x, &n), scale = power_of_two(n);
  return p * scale + (scale - 1);
}

/// 1/3 + q/5 + q^2/7 ... of the series log((1 + s) / (1 - s)) = 2 s (1 + q/3 + q^2/5 ...), q = s^2.
INLINE num log_series(num q) {
  num sum = (num)1 / (num)(2 * LOG_TERMS - 1);
  UNROLL
  for (int k = LOG_TERMS - 2; k >= 1; --k) sum = sum * q + (num)1 / (num)(2 * k + 1);
  return sum;
}

/// log(1 + x) for 0 <= x <= 1.
INLINE num log1p_unit(num x) {
  const num s = x / (x + 2), q = s * s, double_s = s + s;
  return double_s + double_s * (q * log_series(q));
}

#if NUMBERS == NUMBERS_double
/// base ^ exponent for base > 0. The logarithm is a sum of two doubles, since the exponent multiplies its error.
INLINE double power(double base, double exponent) {
  if (exponent == 0) return 1;
  if (!(base < DOUBLE_OF_BITS((u64)0x7ff << 52))) return exponent < 0 && base == base ? 0 : base;
  const int subnormal = base < 0x1p-1022;
  const i64 bits = BITS_OF_NUM(subnormal ? base * 0x1p54 : base);
  const i64 n = (bits - BITS_OF_NUM(0.70710678118654752440)) >> 52;
  const double m = DOUBLE_OF_BITS((u64)(bits - (n << 52)));  // in [sqrt(1/2), sqrt(2))
  const double f = m - 1, d = m + 1, d_low = (m - (d - (d - m))) + (1 - (d - m));
  const double s = f / d, s_low = (FMA64(-s, d, f) - s * d_low) / d, q = s * s, double_s = s + s;
  const double e = (double)(subnormal ? n - 54 : n), exponent_part = e * LN2_HIGH, leading = exponent_part + double_s;
  const double rest =
      (double_s - (leading - exponent_part)) + e * LN2_LOW + (double_s * (q * log_series(q)) + 2 * s_low);
  const double high = leading + rest, low = rest - (high - leading), y = exponent * high;
  const double y_low = FMA64(exponent, high, -y) + exponent * low;
  const double result = exp_of(y);
  return result < DOUBLE_OF_BITS((u64)0x7ff << 52) && result > 0 ? result + result * y_low : result;
}
#endif
