// Elementary functions of vectors: exp, e^x - 1 and log(1 + x) on the ranges that activations need. Errors are at most
// 2 units in the last place, for infinities, NaN and subnormal numbers, too. Power series with exact coefficients, no
// tables.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/vec.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Constants of a floating-point type. kShift: v + kShift has round(v) in its low bits, for |v| < 2^22 (2^51 for
/// double). ln 2 = kLn2High + kLn2Low; multiples of kLn2High that reduce() uses are exact.
template <class T>
struct Float;
template <>
struct Float<float> {
  using Int = std::int32_t;
  static constexpr int kFraction = 23, kBias = 127;
  static constexpr int kExpTerms = 7, kLogTerms = 8;
  static constexpr float kShift = 0x1.8p23f, kLn2High = 0x1.62e4p-1f, kLn2Low = 0x1.7f7d1cp-20f;
  static constexpr float kExpLow = -104, kExpHigh = 89, kExpm1Low = -30;  // beyond these results are 0, infinity, -1
};
template <>
struct Float<double> {
  using Int = std::int64_t;
  static constexpr int kFraction = 52, kBias = 1023;
  static constexpr int kExpTerms = 13, kLogTerms = 17;
  static constexpr double kShift = 0x1.8p52, kLn2High = 0x1.62e42fefa38p-1, kLn2Low = 0x1.ef35793c7673p-45;
  static constexpr double kExpLow = -746, kExpHigh = 710, kExpm1Low = -50;
};

template <class T>
using Ints = typename VecType<typename Float<T>::Int, kLanes<T>>::type;

/// 1 / k! and 1 / (2 k + 1).
template <class T>
struct Series {
  T inverse_factorial[Float<T>::kExpTerms + 1] = {}, inverse_odd[Float<T>::kLogTerms] = {};
  constexpr Series() {
    double factorial = 1;
    for (int k = 0; k <= Float<T>::kExpTerms; ++k) {
      factorial *= k > 0 ? k : 1;
      inverse_factorial[k] = static_cast<T>(1 / factorial);
    }
    for (int k = 0; k < Float<T>::kLogTerms; ++k) inverse_odd[k] = static_cast<T>(1 / (2.0 * k + 1));
  }
};
template <class T>
inline constexpr Series<T> kSeries{};

static inline Vec<float> square_root(Vec<float> v) {
#if defined(__AVX512F__)
  return (Vec<float>)_mm512_maskz_sqrt_ps(0xffff, (__m512)v);
#elif defined(__AVX2__)
  return (Vec<float>)_mm256_sqrt_ps((__m256)v);
#else
  for (int i = 0; i < kLanes<float>; ++i) v[i] = __builtin_sqrtf(v[i]);
  return v;
#endif
}
static inline Vec<double> square_root(Vec<double> v) {
#if defined(__AVX512F__)
  return (Vec<double>)_mm512_maskz_sqrt_pd(0xff, (__m512d)v);
#elif defined(__AVX2__)
  return (Vec<double>)_mm256_sqrt_pd((__m256d)v);
#else
  for (int i = 0; i < kLanes<double>; ++i) v[i] = __builtin_sqrt(v[i]);
  return v;
#endif
}

template <class T>
static inline Vec<T> absolute(Vec<T> v) {
  constexpr int kSignBit = 8 * static_cast<int>(sizeof(T)) - 1;
  const Ints<T> sign = (Ints<T>{} + 1) << kSignBit;
  return (Vec<T>)((Ints<T>)v & ~sign);
}

/// The magnitude of `magnitude` with the sign of `sign`.
template <class T>
static inline Vec<T> with_sign(Vec<T> magnitude, Vec<T> sign) {
  return (Vec<T>)((Ints<T>)absolute<T>(magnitude) | ((Ints<T>)sign ^ (Ints<T>)absolute<T>(sign)));
}

/// a > b ? a : b and a < b ? a : b; that is b where either is NaN. Compilers make two instructions of the comparison.
template <class T>
[[gnu::always_inline]] inline Vec<T> larger_of(Vec<T> a, Vec<T> b) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == sizeof(float)) return (Vec<T>)_mm512_maskz_max_ps(0xffff, (__m512)a, (__m512)b);
  if constexpr (sizeof(T) == sizeof(double)) return (Vec<T>)_mm512_maskz_max_pd(0xff, (__m512d)a, (__m512d)b);
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == sizeof(float)) return (Vec<T>)_mm256_max_ps((__m256)a, (__m256)b);
  if constexpr (sizeof(T) == sizeof(double)) return (Vec<T>)_mm256_max_pd((__m256d)a, (__m256d)b);
#else
  return a > b ? a : b;
#endif
}
template <class T>
[[gnu::always_inline]] inline Vec<T> smaller_of(Vec<T> a, Vec<T> b) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == sizeof(float)) return (Vec<T>)_mm512_maskz_min_ps(0xffff, (__m512)a, (__m512)b);
  if constexpr (sizeof(T) == sizeof(double)) return (Vec<T>)_mm512_maskz_min_pd(0xff, (__m512d)a, (__m512d)b);
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == sizeof(float)) return (Vec<T>)_mm256_min_ps((__m256)a, (__m256)b);
  if constexpr (sizeof(T) == sizeof(double)) return (Vec<T>)_mm256_min_pd((__m256d)a, (__m256d)b);
#else
  return a < b ? a : b;
#endif
}

/// 2^n; the result must be normal.
template <class T>
static inline Vec<T> power_of_two(Ints<T> n) {
  return (Vec<T>)((n + Float<T>::kBias) << Float<T>::kFraction);
}

/// e^x = 2^n (1 + p), |p| <= sqrt(2) - 1; p has a small relative error. power: 2^n if that is normal; whole: n.
template <class T>
struct Reduced {
  Ints<T> n;
  Vec<T> whole, power, p;
};
template <class T>
[[gnu::always_inline]] inline Reduced<T> reduce(Vec<T> x) {
  using F = Float<T>;
  const Vec<T> shift = broadcast<T>(F::kShift);
  const Vec<T> shifted = x * static_cast<T>(1.4426950408889634074) + shift;
  const Vec<T> whole = shifted - shift;
  const Vec<T> r = (x - whole * F::kLn2High) - whole * F::kLn2Low;
  Vec<T> sum = broadcast<T>(kSeries<T>.inverse_factorial[F::kExpTerms]);
#pragma GCC unroll 16
  for (int k = F::kExpTerms - 1; k >= 2; --k) sum = sum * r + kSeries<T>.inverse_factorial[k];
  // The shift's own bits leave the integer on the left.
  const Ints<T> power = ((Ints<T>)shifted << F::kFraction) + (Ints<T>)broadcast<T>(1);
  return {(Ints<T>)shifted - (Ints<T>)shift, whole, (Vec<T>)power, r + r * r * sum};
}

template <class T>
[[gnu::always_inline]] inline Vec<T> exp_of(Vec<T> x) {
  const Vec<T> low = broadcast<T>(Float<T>::kExpLow), high = broadcast<T>(Float<T>::kExpHigh);
  const Reduced<T> e = reduce<T>(smaller_of<T>(high, larger_of<T>(low, x)));  // NaN stays
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == sizeof(float))
    return (Vec<T>)_mm512_maskz_scalef_ps(0xffff, (__m512)(e.p + 1), (__m512)e.whole);
  else
    return (Vec<T>)_mm512_maskz_scalef_pd(0xff, (__m512d)(e.p + 1), (__m512d)e.whole);
#else
  // Two factors: neither overflows, and a subnormal result is rounded once.
  const Ints<T> half = e.n >> 1;
  const Vec<T> scale = power_of_two<T>(half);
  return (e.p * scale + scale) * power_of_two<T>(e.n - half);
#endif
}

/// e^x for x <= 0, where results below the least normal number may be that number: terms of a sum that is 1 or more.
template <class T>
[[gnu::always_inline]] inline Vec<T> exp_of_term(Vec<T> x) {
  const Reduced<T> e = reduce<T>(larger_of<T>(broadcast<T>(sizeof(T) == sizeof(double) ? -708 : -87), x));  // NaN stays
  return e.p * e.power + e.power;
}

/// e^x - 1 for x <= 0.
template <class T>
static inline Vec<T> expm1_down(Vec<T> x) {
  const Reduced<T> e = reduce<T>(larger_of<T>(broadcast<T>(Float<T>::kExpm1Low), x));
  return e.p * e.power + (e.power - static_cast<T>(1));
}

/// 1/3 + q/5 + q^2/7 ... of the series log((1 + s) / (1 - s)) = 2 s (1 + q/3 + q^2/5 ...), q = s^2.
template <class T, int kTerms>
static inline Vec<T> log_series(Vec<T> q) {
  Vec<T> sum = broadcast<T>(kSeries<T>.inverse_odd[kTerms - 1]);
#pragma GCC unroll 32
  for (int k = kTerms - 2; k >= 1; --k) sum = sum * q + kSeries<T>.inverse_odd[k];
  return sum;
}

/// log(1 + x) for 0 <= x <= 1.
template <class T>
static inline Vec<T> log1p_unit(Vec<T> x) {
  const Vec<T> s = x / (x + static_cast<T>(2)), q = s * s, twice = s + s;
  return twice + twice * (q * log_series<T, Float<T>::kLogTerms>(q));
}

/// base ^ exponent for normal base > 0. The relative error of 1e-10 suffices for results that are rounded to fp32.
static inline Vec<double> power_for_float(Vec<double> base, double exponent) {
  using I = Ints<double>;
  const Vec<double> one = broadcast(1.0), infinity = broadcast(__builtin_inf());
  const I least = (I)broadcast(0.70710678118654752440);
  const I n = ((I)base - least) >> 52;
  const Vec<double> m = (Vec<double>)((I)base - (n << 52));  // in [sqrt(1/2), sqrt(2))
  const Vec<double> s = (m - one) / (m + one), q = s * s, twice = s + s;
  const Vec<double> log_m = twice + twice * (q * log_series<double, 8>(q));
  const Vec<double> log = __builtin_convertvector(n, Vec<double>) * 0.69314718055994530942 + log_m;
  return exponent == 0 ? one : exp_of<double>((base < infinity ? log : base) * exponent);
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
