// Vectors of the instruction set that a file is compiled for; loads and stores of whole and partial vectors. Include
// only from files in kernels/cpu/isa.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "base/math.h"

// Every function lives in a namespace named after the instruction set: two levels never share a
// symbol, so the linker cannot mix them. Standard library functions are avoided for that reason.
namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

using i64 = std::int64_t;

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64, kRegisters = 32;
inline constexpr bool kMaskedLoads = true, kMaskedStores = true;  // load_lanes, store_lanes take few instructions
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32, kRegisters = 16;
inline constexpr bool kMaskedLoads = true, kMaskedStores = false;
#else
inline constexpr int kVectorBytes = 16, kRegisters = 16;
inline constexpr bool kMaskedLoads = false, kMaskedStores = false;
#endif

template <class T, int N>
struct VecType {
  typedef T type __attribute__((vector_size(N * sizeof(T))));
  typedef T unaligned __attribute__((vector_size(N * sizeof(T)), aligned(alignof(T)), may_alias));
};

template <class T>
inline constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

/// The widest vector of T.
template <class T>
using Vec = typename VecType<T, kLanes<T>>::type;

template <class T>
static constexpr T min_of(T a, T b) {
  return b < a ? b : a;
}
template <class T>
static constexpr T max_of(T a, T b) {
  return a < b ? b : a;
}

/// Optimization barrier: keeps a loaded value in its register. Compilers would load it again for each use.
template <class V>
[[gnu::always_inline]] inline void hold(V& v) {
#if defined(__AVX512F__)
  __asm__("" : "+v"(v));
#elif defined(__SSE2__)
  __asm__("" : "+x"(v));
#else
  static_cast<void>(v);
#endif
}

template <class T, int N = kLanes<T>>
static inline typename VecType<T, N>::type load(const T* p) {
  return *reinterpret_cast<const typename VecType<T, N>::unaligned*>(p);
}

template <class T, int N = kLanes<T>>
static inline void store(T* p, typename VecType<T, N>::type v) {
  *reinterpret_cast<typename VecType<T, N>::unaligned*>(p) = v;
}

template <class T>
static inline Vec<T> broadcast(T value) {
  return value - Vec<T>{};  // subtracting zero is exact and folds away; adding it would not (-0)
}

/// Orders non-temporal stores before the end of the task: other threads read the result when they see it.
static inline void finish_non_temporal_stores() {
#if defined(__SSE2__)
  __builtin_ia32_sfence();
#endif
}

/// Non-temporal store. Callers write whole cache lines, with AVX2 by two consecutive vectors.
#if defined(__AVX512F__)
inline constexpr bool kStreams = true;
template <class T>
static inline void stream(T* p, Vec<T> v) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(p), (__m512i)v);
}
#elif defined(__AVX2__)
inline constexpr bool kStreams = true;
template <class T>
static inline void stream(T* p, Vec<T> v) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p), (__m256i)v);
}
#else
inline constexpr bool kStreams = false;
template <class T>
static inline void stream(T* p, Vec<T> v) {
  store(p, v);
}
#endif

#if defined(__AVX512F__)
/// Loads lanes [lo, hi) of the vector at p, zero elsewhere; memory outside the range is not accessed.
static inline Vec<float> load_lanes(const float* p, int lo, int hi) {
  const unsigned mask = (0xffffu >> (16 - hi)) & (0xffffu << lo);
  return (Vec<float>)_mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), p);
}
static inline Vec<double> load_lanes(const double* p, int lo, int hi) {
  const unsigned mask = (0xffu >> (8 - hi)) & (0xffu << lo);
  return (Vec<double>)_mm512_maskz_loadu_pd(static_cast<__mmask8>(mask), p);
}
static inline Vec<std::int32_t> load_lanes(const std::int32_t* p, int lo, int hi) {
  const unsigned mask = (0xffffu >> (16 - hi)) & (0xffffu << lo);
  return (Vec<std::int32_t>)_mm512_maskz_loadu_epi32(static_cast<__mmask16>(mask), p);
}
/// Stores the first n lanes.
static inline void store_lanes(std::int32_t* p, Vec<std::int32_t> v, int n) {
  _mm512_mask_storeu_epi32(p, static_cast<__mmask16>(0xffffu >> (16 - n)), (__m512i)v);
}
static inline void store_lanes(float* p, Vec<float> v, int n) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>(0xffffu >> (16 - n)), (__m512)v);
}
static inline void store_lanes(double* p, Vec<double> v, int n) {
  _mm512_mask_storeu_pd(p, static_cast<__mmask8>(0xffu >> (8 - n)), (__m512d)v);
}
#else
template <class T>
static inline Vec<T> load_lanes(const T* p, int lo, int hi) {
  Vec<T> v{};
  for (int i = lo; i < hi; ++i) v[i] = p[i];
  return v;
}
template <class T>
static inline void store_lanes(T* p, Vec<T> v, int n) {
  for (int i = 0; i < n; ++i) p[i] = v[i];
}
#if defined(__AVX2__)
/// Mask of lanes [lo, hi) for masked loads, with all bits of a lane set.
static inline __m256i lanes_of_4(int lo, int hi) {
  const Vec<std::int32_t> lane{0, 1, 2, 3, 4, 5, 6, 7};
  return (__m256i)((lane >= lo) & (lane < hi));
}
static inline __m256i lanes_of_8(int lo, int hi) {
  const Vec<i64> lane{0, 1, 2, 3};
  return (__m256i)((lane >= lo) & (lane < hi));
}
static inline Vec<float> load_lanes(const float* p, int lo, int hi) {
  return (Vec<float>)_mm256_maskload_ps(p, lanes_of_4(lo, hi));
}
static inline Vec<double> load_lanes(const double* p, int lo, int hi) {
  return (Vec<double>)_mm256_maskload_pd(p, lanes_of_8(lo, hi));
}
static inline Vec<std::int32_t> load_lanes(const std::int32_t* p, int lo, int hi) {
  return (Vec<std::int32_t>)_mm256_maskload_epi32(p, lanes_of_4(lo, hi));
}
// By halves of the vector: masked stores take tens of cycles on some processors.
static inline void store_lanes(float* p, Vec<float> v, int n) {
  if (n >= 8) return store(p, v);
  __m128 part = _mm256_castps256_ps128((__m256)v);
  if (n & 4) {
    _mm_storeu_ps(p, part);
    part = _mm256_extractf128_ps((__m256)v, 1);
    p += 4;
  }
  if (n & 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(p), part);
    part = _mm_movehl_ps(part, part);
    p += 2;
  }
  if (n & 1) _mm_store_ss(p, part);
}
static inline void store_lanes(std::int32_t* p, Vec<std::int32_t> v, int n) {
  store_lanes(reinterpret_cast<float*>(p), (Vec<float>)v, n);
}
static inline void store_lanes(double* p, Vec<double> v, int n) {
  if (n >= 4) return store(p, v);
  __m128d part = _mm256_castpd256_pd128((__m256d)v);
  if (n & 2) {
    _mm_storeu_pd(p, part);
    part = _mm256_extractf128_pd((__m256d)v, 1);
    p += 2;
  }
  if (n & 1) _mm_store_sd(p, part);
}
#endif
#endif
#if defined(__AVX2__)
/// Loads every second element: lane i is p[2 * i] for lo <= i < hi, zero elsewhere; memory outside p[2 * lo] to
/// p[2 * hi - 2] is not accessed.
template <class T, std::size_t... I>
static inline Vec<T> load_even(const T* p, int lo, int hi, std::index_sequence<I...>) {
  constexpr int kN = kLanes<T>;
  const int first = 2 * lo, last = 2 * hi - 1;
  const Vec<T> a = load_lanes(p, min_of(first, kN), max_of(min_of(last, kN), 0));
  const Vec<T> b = load_lanes(p + kN, min_of(max_of(first - kN, 0), kN), max_of(last - kN, 0));
  return __builtin_shufflevector(a, b, static_cast<int>(2 * I)...);
}
/// Loads p[kStride * i] into lane i for lo <= i < hi, zero elsewhere; kStride is 1 or 2.
template <int kStride, class T>
static inline Vec<T> load_steps(const T* p, int lo, int hi) {
  if constexpr (kStride == 1) {
    return load_lanes(p, lo, hi);
  } else {
    return load_even(p, lo, hi, std::make_index_sequence<kLanes<T>>{});
  }
}
#endif

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
