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

/// 2^n; the result must be normal.
template <class T>
static inline Vec<T> power_of_two(Ints<T> n) {
  return (Vec<T>)((n + Float<T>::kBias) << Float<T>::kFraction);
}

/// e^x = 2^n (1 + p), |p| <= sqrt(2) - 1; p has a small relative error.
template <class T>
struct Reduced {
  Ints<T> n;
  Vec<T> p;
};
template <class T>
static inline Reduced<T> reduce(Vec<T> x) {
  using F = Float<T>;
  const Vec<T> shift = broadcast<T>(F::kShift);
  const Vec<T> shifted = x * static_cast<T>(1.4426950408889634074) + shift;
  const Vec<T> whole = shifted - shift;
  const Vec<T> r = (x - whole * F::kLn2High) - whole * F::kLn2Low;
  Vec<T> sum = broadcast<T>(kSeries<T>.inverse_factorial[F::kExpTerms]);
#pragma GCC unroll 16
  for (int k = F::kExpTerms - 1; k >= 2; --k) sum = sum * r + kSeries<T>.inverse_factorial[k];
  return {(Ints<T>)shifted - (Ints<T>)shift, r + r * r * sum};
}

template <class T>
static inline Vec<T> exp_of(Vec<T> x) {
  const Vec<T> low = broadcast<T>(Float<T>::kExpLow), high = broadcast<T>(Float<T>::kExpHigh);
  x = x < low ? low : x;  // NaN stays
  x = x > high ? high : x;
  const Reduced<T> e = reduce<T>(x);
  // Two factors: neither overflows, and a subnormal result is rounded once.
  const Ints<T> half = e.n >> 1;
  const Vec<T> scale = power_of_two<T>(half);
  return (e.p * scale + scale) * power_of_two<T>(e.n - half);
}

/// e^x - 1 for x <= 0.
template <class T>
static inline Vec<T> expm1_down(Vec<T> x) {
  const Vec<T> low = broadcast<T>(Float<T>::kExpm1Low);
  x = x < low ? low : x;
  const Reduced<T> e = reduce<T>(x);
  const Vec<T> scale = power_of_two<T>(e.n);
  return e.p * scale + (scale - static_cast<T>(1));
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
