// Vectors of the arithmetic's type T (float or double) from and to memory of the storage type S.
// SPDX-License-Identifier: MIT
#pragma once
#if !defined(__AVX2__) && defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "kernels/cpu/isa/math_functions.h"
#include "kernels/cpu/vec.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

template <class T>
Ints<T> lane_numbers() {
  Ints<T> lanes{};
  for (int i = 0; i < kLanes<T>; ++i) lanes[i] = i;
  return lanes;
}

/// Storage types of operands, in their order.
template <class... S>
struct Types {};

template <std::size_t kNumber, class S, class... Rest>
struct TypeAt : TypeAt<kNumber - 1, Rest...> {};
template <class S, class... Rest>
struct TypeAt<0, S, Rest...> {
  using type = S;
};

template <class S>
inline constexpr bool kIs16BitFloat = __is_same(S, Half) || __is_same(S, Bfloat16);
template <class S>
inline constexpr bool kIsStoredInteger = __is_same(S, std::int8_t) || __is_same(S, std::int32_t);

template <class S, class T>
struct Elements {
  static constexpr int kN = kLanes<T>;
  using Bits = std::conditional_t<kIs16BitFloat<S>, std::uint16_t, S>;
  using Stored = typename VecType<Bits, kN>::type;
  static constexpr bool kHasParts = __is_same(T, float) && (__is_same(S, float) || kIs16BitFloat<S>);
  // Whether two vectors are stored as one. With AVX-512 it was not measured.
  static constexpr bool kPairs = kIs16BitFloat<S> && kVectorBytes == 32;
  static_assert(sizeof(S) <= sizeof(T) && !(__is_same(S, std::int32_t) && __is_same(T, float)),
                "every value of the storage type must be a value of the arithmetic's type");

  static Vec<T> widened(Stored v) {
    if constexpr (__is_same(S, T)) {
      return v;
    } else if constexpr (kIs16BitFloat<S> && __is_same(T, float)) {
      return POLYMIO_ISA_NAMESPACE::widened<S>(v);
    } else if constexpr (__is_same(S, Half)) {
      using Floats = typename VecType<float, kN>::type;
#if defined(__AVX512F__)
      return __builtin_convertvector((Floats)_mm256_cvtph_ps((__m128i)v), Vec<T>);
#elif defined(__F16C__)
      std::int64_t bits;
      __builtin_memcpy(&bits, &v, sizeof bits);
      return __builtin_convertvector((Floats)_mm_cvtph_ps(_mm_cvtsi64_si128(bits)), Vec<T>);
#else
      Floats wide;
      for (int i = 0; i < kN; ++i) wide[i] = widen(Half{v[i]});
      return __builtin_convertvector(wide, Vec<T>);
#endif
    } else if constexpr (__is_same(S, Bfloat16)) {
      using Wide = typename VecType<std::uint32_t, kN>::type;
      using Floats = typename VecType<float, kN>::type;
      return __builtin_convertvector((Floats)(__builtin_convertvector(v, Wide) << 16), Vec<T>);
    } else {
      return __builtin_convertvector(v, Vec<T>);
    }
  }

  /// Rounds to nearest even; integers saturate and are 0 for NaN.
  static Stored narrowed(Vec<T> v) {
    static_assert(!kIs16BitFloat<S> || __is_same(T, float), "16-bit floats are rounded from float only");
    if constexpr (__is_same(S, T)) {
      return v;
    } else if constexpr (kIs16BitFloat<S>) {
      return POLYMIO_ISA_NAMESPACE::narrowed<S>(v);
    } else if constexpr (kIsStoredInteger<S>) {
      constexpr int kBits = 8 * static_cast<int>(sizeof(S));
      const Vec<T> high = broadcast<T>(static_cast<T>((std::int64_t{1} << (kBits - 1)) - 1)), low = -high - 1;
      const Vec<T> shift = broadcast<T>(Float<T>::kShift);
      v = v == v ? v : Vec<T>{};
      v = v < low ? low : v;
      v = v > high ? high : v;
      return __builtin_convertvector((Ints<T>)(v + shift) - (Ints<T>)shift, Stored);
    } else {
      return __builtin_convertvector(v, Stored);
    }
  }

  static Vec<T> load(const void* data, i64 i) {
    Stored v;
    __builtin_memcpy(&v, static_cast<const S*>(data) + i, sizeof v);
    return widened(v);
  }
  static void store(void* data, i64 i, Vec<T> v) {
    const Stored stored = narrowed(v);
    __builtin_memcpy(static_cast<S*>(data) + i, &stored, sizeof stored);
  }
  static void store(void* data, i64 i, Vec<T> low, Vec<T> high) {
    if constexpr (kPairs) {
      const auto stored = narrowed_pair<S>(low, high);
      __builtin_memcpy(static_cast<S*>(data) + i, &stored, sizeof stored);
    } else {
      store(data, i, low);
      store(data, i + kN, high);
    }
  }
  /// The first n elements from element i on, zero in the other lanes; memory after them is not accessed.
  static Vec<T> load_part(const void* data, i64 i, int n) {
    const S* const from = static_cast<const S*>(data) + i;
    if constexpr (kHasParts) {
      return load_widened(from, n);
    } else if constexpr (__is_same(S, T)) {
      return load_lanes(from, 0, n);
    } else {
      alignas(64) unsigned char line[kVectorBytes] = {};
      __builtin_memcpy(line, from, static_cast<std::size_t>(n) * sizeof(S));
      return load(line, 0);
    }
  }
  static void store_part(void* data, i64 i, Vec<T> v, int n) {
    S* const to = static_cast<S*>(data) + i;
    if constexpr (kHasParts) {
      store_narrowed(to, v, n);
    } else if constexpr (__is_same(S, T)) {
      store_lanes(to, v, n);
    } else {
      const Stored stored = narrowed(v);
      __builtin_memcpy(to, &stored, static_cast<std::size_t>(n) * sizeof(S));
    }
  }
  /// store() with a non-temporal store, or a plain one where there is none; the address is aligned to Stored.
  static void store_non_temporal(void* data, i64 i, Vec<T> v) {
    const Stored stored = narrowed(v);
    S* const p = static_cast<S*>(data) + i;
#if defined(__AVX512F__)
    if constexpr (sizeof stored == 64) return _mm512_stream_si512((__m512i*)p, (__m512i)stored);
#endif
#if defined(__AVX2__)
    if constexpr (sizeof stored == 32) return _mm256_stream_si256((__m256i*)p, (__m256i)stored);
#endif
#if defined(__SSE2__)
    if constexpr (sizeof stored == 16) return _mm_stream_si128((__m128i*)p, (__m128i)stored);
#endif
    __builtin_memcpy(p, &stored, sizeof stored);
  }
  /// The address is aligned to two vectors.
  static void store_non_temporal(void* data, i64 i, Vec<T> low, Vec<T> high) {
#if defined(__AVX2__)
    if constexpr (kPairs) {
      const auto stored = narrowed_pair<S>(low, high);
      return _mm256_stream_si256(reinterpret_cast<__m256i*>(static_cast<S*>(data) + i), (__m256i)stored);
    }
#endif
    store_non_temporal(data, i, low);
    store_non_temporal(data, i + kN, high);
  }
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
