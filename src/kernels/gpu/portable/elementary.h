// More elementary functions in the arithmetic of -DNUM: logarithm, tanh, error function, circular functions, powers and
// remainders, for all arguments. The same methods as on CPUs: series with exact coefficients and continued fractions.
// Circular functions lose precision with arguments above 10^4 (float) or 10^8 (double). Include functions.h before.
// SPDX-License-Identifier: MIT
#pragma once

#if NUMBERS == NUMBERS_double
#define INFINITE DOUBLE_OF_BITS((u64)0x7ff << 52)
#define NOT_A_NUMBER DOUBLE_OF_BITS((u64)0xfff << 51)
#define LEAST_NORMAL 0x1p-1022
#define SUBNORMAL_SHIFT 54
#define SUBNORMAL_SCALE 0x1p54
#define SQRT_HALF 0.70710678118654752440
#define ERF_TERMS 48
#define ERF_DEPTH 60
#define SIN_TERMS 8
#define LARGEST_WHOLE 0x1p52
#define HALF_PI_1 0x1.921fb544p+0
#define HALF_PI_2 0x1.0b4611a6p-34
#define HALF_PI_3 0x1.3198a2e037073p-69
#else
#define INFINITE FLOAT_OF_BITS(0x7f800000u)
#define NOT_A_NUMBER FLOAT_OF_BITS(0x7fc00000u)
#define LEAST_NORMAL 0x1p-126f
#define SUBNORMAL_SHIFT 24
#define SUBNORMAL_SCALE 0x1p24f
#define SQRT_HALF 0.70710678f
#define ERF_TERMS 24
#define ERF_DEPTH 12
#define SIN_TERMS 5
#define LARGEST_WHOLE 0x1p23f
#define HALF_PI_1 0x1.92p+0f
#define HALF_PI_2 0x1.fb4p-12f
#define HALF_PI_3 0x1.4442d18469899p-24f
#endif

/// x = m 2^n with m in [sqrt(1/2), sqrt(2)); for positive finite x.
INLINE num split_number(num x, num* n) {
  const int subnormal = x < LEAST_NORMAL;
  const num_int bits = BITS_OF_NUM(subnormal ? x * SUBNORMAL_SCALE : x);
  const num_int e = (bits - BITS_OF_NUM((num)SQRT_HALF)) >> FRACTION;
  *n = (num)(subnormal ? e - SUBNORMAL_SHIFT : e);
  return NUM_OF_BITS(bits - (num_int)((u64)e << FRACTION));
}

INLINE num log_of(num x) {
  if (!(x > 0)) return x == 0 ? -INFINITE : NOT_A_NUMBER;
  if (!(x < INFINITE)) return x;
  num n;
  const num m = split_number(x, &n), s = (m - 1) / (m + 1), q = s * s, double_s = s + s;
  return n * LN2_HIGH + (double_s + double_s * (q * log_series(q)) + n * LN2_LOW);
}

INLINE num tanh_of(num x) {
  const num e = expm1_nonpositive(-2 * abs_of(x)), t = -e / (e + 2);
  return x != x ? x : x < 0 ? -t : t;
}

INLINE num erf_of(num x) {
  const num v = abs_of(x), e = exp_of(-(v * v)) * (num)1.12837916709551257390;
  num result;
  if (v < 2) {
    const num u = 2 * v * v;
    num sum = 1;
    for (int k = ERF_TERMS; k >= 1; --k) sum = sum * (u * ((num)1 / (num)(2 * k + 1))) + 1;
    result = v * sum * e;
  } else {
    num fraction = v;
    for (int k = ERF_DEPTH; k >= 1; --k) fraction = v + (num)0.5 * (num)k / fraction;
    result = 1 - e * (num)0.5 / fraction;
  }
  return x != x ? x : x < 0 ? -result : result;
}

INLINE num floor_of(num x) {
  if (!(abs_of(x) < LARGEST_WHOLE)) return x;
  const num whole = (num)(num_int)x;
  return whole > x ? whole - 1 : whole;
}
INLINE num ceil_of(num x) { return -floor_of(-x); }

/// r = x - k pi / 2, |r| <= pi / 4; returns k modulo 4.
INLINE int reduce_angle(num x, num* r) {
  const num k = floor_of(x * (num)0.63661977236758134308 + (num)0.5);
  *r = ((x - k * (num)HALF_PI_1) - k * (num)HALF_PI_2) - k * (num)HALF_PI_3;
  return (int)(k - 4 * floor_of(k * (num)0.25));
}
INLINE num sin_series(num r) {
  const num u = r * r;
  num sum = 1;
  UNROLL
  for (int k = SIN_TERMS; k >= 1; --k) sum = 1 - sum * (u * ((num)1 / (num)(2 * k * (2 * k + 1))));
  return r * sum;
}
INLINE num cos_series(num r) {
  const num u = r * r;
  num sum = 1;
  UNROLL
  for (int k = SIN_TERMS; k >= 1; --k) sum = 1 - sum * (u * ((num)1 / (num)(2 * k * (2 * k - 1))));
  return sum;
}
INLINE num circular(num x, int quarter) {
  if (!(abs_of(x) < INFINITE)) return NOT_A_NUMBER;
  num r;
  const int k = (reduce_angle(x, &r) + quarter) & 3;
  const num v = k & 1 ? cos_series(r) : sin_series(r);
  return k & 2 ? -v : v;
}
INLINE num sin_of(num x) { return circular(x, 0); }
INLINE num cos_of(num x) { return circular(x, 1); }
INLINE num tan_of(num x) { return sin_of(x) / cos_of(x); }

/// The remainder of |a| / |b| by subtracting multiples of b from the largest power of two down: exact.
INLINE num mod_of(num a, num b) {
  const num divisor = abs_of(b);
  num rest = abs_of(a);
  if (a != a || b != b || divisor == 0 || !(rest < INFINITE)) return NOT_A_NUMBER;
  if (divisor < INFINITE) {
    while (rest >= divisor) {
      num step = divisor;
      while (step <= rest * (num)0.5) step = step + step;
      rest = rest - step;
    }
  }
  return a < 0 ? -rest : rest;
}

#if NUMBERS == NUMBERS_double
INLINE num positive_power(num base, num exponent) { return power(base, exponent); }
#else
/// As power() of functions.h, in float: the logarithm is a sum of two numbers.
INLINE num positive_power(num base, num exponent) {
  if (exponent == 0) return 1;
  if (!(base < INFINITE)) return base != base ? base : exponent < 0 ? 0 : base;
  num n;
  const num m = split_number(base, &n);
  const num f = m - 1, d = m + 1, d_low = (m - (d - (d - m))) + (1 - (d - m));
  const num s = f / d, s_low = (FMA(-s, d, f) - s * d_low) / d, q = s * s, double_s = s + s;
  const num exponent_part = n * LN2_HIGH, leading = exponent_part + double_s;
  const num rest = (double_s - (leading - exponent_part)) + n * LN2_LOW + (double_s * (q * log_series(q)) + 2 * s_low);
  const num high = leading + rest, low = rest - (high - leading), y = exponent * high;
  const num y_low = FMA(exponent, high, -y) + exponent * low;
  const num result = exp_of(y);
  return result < INFINITE && result > 0 ? result + result * y_low : result;
}
#endif

/// base ^ exponent. A negative base needs a whole exponent, whose parity gives the sign.
INLINE num pow_of(num base, num exponent) {
  if (exponent == 0 || base == 1) return 1;
  if (base != base || exponent != exponent) return NOT_A_NUMBER;
  const num size = abs_of(base);
  if (!(abs_of(exponent) < INFINITE)) {
    if (size == 1) return 1;
    return (size > 1) == (exponent > 0) ? INFINITE : 0;
  }
  const int whole = floor_of(exponent) == exponent;
  const int odd = whole && floor_of(exponent * (num)0.5) * 2 != exponent;
  num v;
  if (size == 0)
    v = exponent > 0 ? 0 : INFINITE;
  else if (base < 0 && !whole && size < INFINITE)
    return NOT_A_NUMBER;
  else
    v = positive_power(size, exponent);
  return base < 0 && odd ? -v : v;
}
