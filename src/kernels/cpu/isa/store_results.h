// Stores vectors of sums as elements of an output: y = alpha * sum + beta * y, rounded or saturated to its type.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/vec.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Writes the first n lanes of vectors of sums of type A as elements of type S.
template <class A, class S>
struct Emit {
  A alpha, beta;
  static constexpr int kN = kLanes<A>;

  void operator()(S* y, Vec<A> v, int n) const {
    v *= alpha;
    if constexpr (__is_same(A, double)) {
      if (beta != 0) v += beta * load_lanes(y, 0, n);
      if (n == kN) return store(y, v);
      store_lanes(y, v, n);
    } else {
      if (beta != 0) v += beta * load_widened(y, n);
      if (n == kN) return store_narrowed(y, v);
      store_narrowed(y, v, n);
    }
  }
};

/// Integer sums: exact and saturated if alpha is 1 and beta 0, else computed in double and rounded once.
template <class S>
struct Emit<std::int32_t, S> {
  double alpha, beta;
  static constexpr int kN = kLanes<std::int32_t>;

  void operator()(S* y, Vec<std::int32_t> v, int n) const {
    if (alpha != 1 || beta != 0) return scaled(y, v, n);
    if constexpr (sizeof(S) == 1) {
      v = v < -128 ? Vec<std::int32_t>{} - 128 : v;
      v = v > 127 ? Vec<std::int32_t>{} + 127 : v;
    }
    typename VecType<S, kN>::type line = __builtin_convertvector(v, typename VecType<S, kN>::type);
    if (n == kN) return store<S, kN>(y, line);
    store_some(y, line, n);
  }

 private:
  static void store_some(S* y, typename VecType<S, kN>::type line, int n) {
    if constexpr (sizeof(S) == 4) {
      store_lanes(y, line, n);
    } else {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
      _mm_mask_storeu_epi8(y, static_cast<__mmask16>(0xffffu >> (16 - n)), (__m128i)line);
#else
      for (int i = 0; i < n; ++i) y[i] = line[i];
#endif
    }
  }
  void scaled(S* y, Vec<std::int32_t> v, int n) const {
    double line[kN];
    for (int i = 0; i < kN; ++i) line[i] = alpha * v[i];
    if (beta != 0)
      for (int i = 0; i < n; ++i) line[i] += beta * y[i];
    for (int i = 0; i < n; ++i) y[i] = rounded(line[i]);
  }

  static S rounded(double v) {
    if constexpr (__is_same(S, float)) {
      return static_cast<float>(v);
    } else {
      constexpr double kLow = sizeof(S) == 1 ? -128.0 : -2147483648.0, kHigh = sizeof(S) == 1 ? 127.0 : 2147483647.0;
      constexpr double kRound = 0x1.8p52;  // adding it leaves no bits for fractions
      v = v == v ? v : 0;
      v = v < kLow ? kLow : v > kHigh ? kHigh : v;
      return static_cast<S>((v + kRound) - kRound);
    }
  }
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
