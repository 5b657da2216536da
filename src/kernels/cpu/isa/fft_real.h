// Fourier transforms of 8 to 32 points, one per lane of a vector (Cooley and Tukey 1965); transforms of real data by a
// complex transform of half the length.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/vec.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

struct Complex {
  Vec<float> re, im;
};

[[gnu::always_inline]] static inline Complex operator+(const Complex& a, const Complex& b) {
  return {a.re + b.re, a.im + b.im};
}
[[gnu::always_inline]] static inline Complex operator-(const Complex& a, const Complex& b) {
  return {a.re - b.re, a.im - b.im};
}
[[gnu::always_inline]] static inline Complex conjugate(const Complex& a) { return {a.re, -a.im}; }

/// e^(-2 pi i k / N), or with kInverse its conjugate, for k = row * column.
template <int kRows, int kColumns, bool kInverse>
struct Twiddles {
  float re[kRows][kColumns] = {}, im[kRows][kColumns] = {};
  constexpr Twiddles(int n) {
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kColumns; ++c) {
        const double angle = 6.283185307179586477 * (r * c % n) / n;
        double term = 1, sum[2] = {0, 0};
        for (int i = 0; i < 60; ++i) {
          sum[i & 1] += (i & 2) != 0 ? -term : term;
          term *= angle / (i + 1);
        }
        re[r][c] = static_cast<float>(sum[0]);
        im[r][c] = static_cast<float>(kInverse ? sum[1] : -sum[1]);
      }
    }
  }
};

[[gnu::always_inline]] static inline Complex times(const Complex& a, float re, float im) {
  const Vec<float> c = broadcast(re), s = broadcast(im);
  return {a.re * c - a.im * s, a.im * c + a.re * s};
}

/// Multiplies by -i, or with kInverse by i.
template <bool kInverse>
[[gnu::always_inline]] static inline Complex rotate(const Complex& a) {
  if constexpr (kInverse) return {-a.im, a.re};
  return {a.im, -a.re};
}

template <bool kInverse>
[[gnu::always_inline]] static inline void butterfly(Complex (&v)[4]) {
  const Complex a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = rotate<kInverse>(v[1] - v[3]);
  v[0] = a + c;
  v[1] = b + d;
  v[2] = a - c;
  v[3] = b - d;
}

template <bool kInverse>
[[gnu::always_inline]] static inline void butterfly(Complex (&v)[8]) {
  constexpr float kRoot = 0.70710678118654752f;
  Complex even[4] = {v[0], v[2], v[4], v[6]}, odd[4] = {v[1], v[3], v[5], v[7]};
  butterfly<kInverse>(even);
  butterfly<kInverse>(odd);
  const Vec<float> root = broadcast(kRoot);
  const Complex one = odd[1] + rotate<kInverse>(odd[1]), three = rotate<kInverse>(odd[3]) - odd[3];
  odd[1] = {one.re * root, one.im * root};
  odd[2] = rotate<kInverse>(odd[2]);
  odd[3] = {three.re * root, three.im * root};
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    v[k] = even[k] + odd[k];
    v[k + 4] = even[k] - odd[k];
  }
}

/// Unscaled complex transform of N points; load(n) gives an input, store(k, value) takes an output. All inputs are
/// loaded before any output is stored.
template <int N, bool kInverse, class Load, class Store>
static inline void transform(const Load& load, const Store& store) {
  if constexpr (N == 8) {
    Complex v[8];
#pragma GCC unroll 8
    for (int n = 0; n < 8; ++n) v[n] = load(n);
    butterfly<kInverse>(v);
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k) store(k, v[k]);
  } else {
    constexpr int kInner = N / 4;
    static constexpr Twiddles<kInner, 4, kInverse> kTwiddles(N);
    Complex middle[4][kInner];
    for (int n = 0; n < kInner; ++n) {
      Complex v[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) v[i] = load(kInner * i + n);
      butterfly<kInverse>(v);
      middle[0][n] = v[0];
#pragma GCC unroll 4
      for (int k = 1; k < 4; ++k) middle[k][n] = times(v[k], kTwiddles.re[n][k], kTwiddles.im[n][k]);
    }
    for (int k = 0; k < 4; ++k) {
      butterfly<kInverse>(middle[k]);
#pragma GCC unroll 8
      for (int i = 0; i < kInner; ++i) store(k + 4 * i, middle[k][i]);
    }
  }
}

/// Transform of N real values: stores twice the frequencies 0 to N / 2.
template <int N, class Load, class Store>
static inline void transform_real(const Load& load, const Store& store) {
  constexpr int kHalf = N / 2;
  static constexpr Twiddles<2, kHalf, false> kTwiddles(N);
  Complex z[kHalf];
  transform<kHalf, false>(
      [&](int n) {
        return Complex{load(2 * n), load(2 * n + 1)};
      },
      [&](int k, const Complex& v) { z[k] = v; });
  const Vec<float> zero{};
  const Complex first = z[0] + z[0], middle = z[kHalf / 2] + z[kHalf / 2];
  store(0, Complex{first.re + first.im, zero});
  store(kHalf, Complex{first.re - first.im, zero});
  store(kHalf / 2, conjugate(middle));
  for (int k = 1; k < kHalf / 2; ++k) {
    const Complex other = conjugate(z[kHalf - k]), even = z[k] + other;
    const Complex odd = times(rotate<false>(z[k] - other), kTwiddles.re[1][k], kTwiddles.im[1][k]);
    store(k, even + odd);
    store(kHalf - k, conjugate(even - odd));
  }
}

/// Inverse transform: stores N times the N real values with the frequencies load(0) to load(N / 2).
template <int N, class Load, class Store>
static inline void invert_real(const Load& load, const Store& store) {
  constexpr int kHalf = N / 2;
  static constexpr Twiddles<2, kHalf, true> kTwiddles(N);
  Complex z[kHalf];
  const Vec<float> first = load(0).re, last = load(kHalf).re;
  const Complex middle = conjugate(load(kHalf / 2));
  z[0] = {first + last, first - last};
  z[kHalf / 2] = middle + middle;
  for (int k = 1; k < kHalf / 2; ++k) {
    const Complex a = load(k), b = conjugate(load(kHalf - k)), even = a + b;
    const Complex odd = rotate<true>(times(a - b, kTwiddles.re[1][k], kTwiddles.im[1][k]));
    z[k] = even + odd;
    z[kHalf - k] = conjugate(even - odd);
  }
  transform<kHalf, true>([&](int k) { return z[k]; },
                         [&](int n, const Complex& v) {
                           store(2 * n, v.re);
                           store(2 * n + 1, v.im);
                         });
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
