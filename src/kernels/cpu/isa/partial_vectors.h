// Loads and stores of some lanes of a vector of float or double, contiguous or strided in memory.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/vec.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Lanes [low, high) of a vector whose lane i is p[i * step]. With step 1 or 2, bit e of `elements` says whether p[e]
/// is in the span, elements between lanes included.
struct Span {
  Span(int l, int h, i64 step) : low(l), high(h) {
    const int unit = static_cast<int>(step);
    if (step <= 2 && h > l) elements = (1u << (unit * (h - 1) + 1)) - (1u << (unit * l));
  }
  int low, high;
  std::uint32_t elements = 0;
};

/// Lane by lane; zero outside the span.
template <class T>
[[gnu::noinline]] Vec<T> gather_lanes(const T* p, i64 step, const Span& s) {
  Vec<T> v{};
  for (int i = s.low; i < s.high; ++i) v[i] = p[i * step];
  return v;
}

/// Every second lane of a and then of b.
template <class V, std::size_t... I>
[[gnu::always_inline]] inline V even_lanes(V a, V b, std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b, static_cast<int>(2 * I)...);
}

/// Loads the lanes of a span, zero elsewhere, and touches no memory outside. kStep is the step if that is 1 or 2, else
/// 0. The constructor prepares the masks for many vectors.
template <class T, int kStep>
class Reader {
 public:
  Reader(const Span& span, i64 step) : span_(span), step_(step) {}
  Vec<T> operator()(const T* p) const { return gather_lanes(p, step_, span_); }

 private:
  Span span_;
  i64 step_;
};

#if defined(__AVX2__)
#if defined(__AVX512F__)
template <class T>
using LaneMask = __mmask16;
template <class T>
LaneMask<T> lane_mask(std::uint32_t bits) {
  auto mask = static_cast<LaneMask<T>>(bits);
  __asm__("" : "+Yk"(mask));  // otherwise compilers compute it again for each vector
  return mask;
}
static inline Vec<float> load_masked(const float* p, __mmask16 m) { return (Vec<float>)_mm512_maskz_loadu_ps(m, p); }
static inline Vec<double> load_masked(const double* p, __mmask16 m) {
  return (Vec<double>)_mm512_maskz_loadu_pd(static_cast<__mmask8>(m), p);
}
static inline void store_masked(float* p, __mmask16 m, Vec<float> v) { _mm512_mask_storeu_ps(p, m, (__m512)v); }
static inline void store_masked(double* p, __mmask16 m, Vec<double> v) {
  _mm512_mask_storeu_pd(p, static_cast<__mmask8>(m), (__m512d)v);
}
#else
template <class T>
using LaneMask = __m256i;
template <class T>
LaneMask<T> lane_mask(std::uint32_t bits) {
  using Lanes = Vec<std::conditional_t<sizeof(T) == sizeof(float), std::int32_t, i64>>;
  Lanes bit{};
  for (int i = 0; i < kLanes<T>; ++i) bit[i] = 1 << i;
  return (__m256i)((bit & static_cast<int>(bits)) != 0);
}
static inline Vec<float> load_masked(const float* p, __m256i m) { return (Vec<float>)_mm256_maskload_ps(p, m); }
static inline Vec<double> load_masked(const double* p, __m256i m) { return (Vec<double>)_mm256_maskload_pd(p, m); }
#endif

template <class T>
class Reader<T, 1> {
 public:
  Reader(const Span& s, i64) : mask_(lane_mask<T>(s.elements)) {}
  Vec<T> operator()(const T* p) const { return load_masked(p, mask_); }

 private:
  LaneMask<T> mask_;
};

template <class T>
class Reader<T, 2> {
  static constexpr int kN = kLanes<T>;

 public:
  Reader(const Span& s, i64) : low_(lane_mask<T>(s.elements)), high_(lane_mask<T>(s.elements >> kN)) {}
  Vec<T> operator()(const T* p) const {
    return even_lanes(load_masked(p, low_), load_masked(p + kN, high_), std::make_index_sequence<kN>{});
  }

 private:
  LaneMask<T> low_, high_;
};
#else
template <class T>
class Reader<T, 1> {
 public:
  Reader(const Span& s, i64) : span_(s) {}
  Vec<T> operator()(const T* p) const {
    return span_.low == 0 && span_.high == kLanes<T> ? load(p) : gather_lanes(p, 1, span_);
  }

 private:
  Span span_;
};

template <class T>
class Reader<T, 2> {
  static constexpr int kN = kLanes<T>;

 public:
  Reader(const Span& s, i64) : span_(s) {}
  Vec<T> operator()(const T* p) const {
    if (span_.low != 0 || span_.high != kN) return gather_lanes(p, 2, span_);
    // The second load ends with the last lane's element: no memory past it is read.
    return last_lanes(load(p), load(p + kN - 1), std::make_index_sequence<kN>{});
  }

 private:
  template <std::size_t... I>
  static Vec<T> last_lanes(Vec<T> a, Vec<T> b, std::index_sequence<I...>) {
    return __builtin_shufflevector(a, b, static_cast<int>(2 * I < kN ? 2 * I : 2 * I + 1)...);
  }
  Span span_;
};
#endif

/// Loads and stores the first n lanes of vectors.
template <class T>
class Writer {
 public:
  explicit Writer(int n) : span_(0, n, 1), read_(span_, 1) {}
  Vec<T> load(const T* p) const { return read_(p); }
  void store(T* p, Vec<T> v) const {
#if defined(__AVX512F__)
    store_masked(p, static_cast<__mmask16>(span_.elements), v);
#else
    if (span_.high == kLanes<T>) return POLYMIO_ISA_NAMESPACE::store(p, v);
    store_lanes(p, v, span_.high);
#endif
  }

 private:
  Span span_;
  Reader<T, 1> read_;
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
