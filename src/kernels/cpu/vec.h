// Conversions between fp32 vectors and 16-bit formats; small transposes. Include only from files in kernels/cpu/isa.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/vector.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Storage types of the 16-bit formats.
struct Half {
  std::uint16_t bits;
};
struct Bfloat16 {
  std::uint16_t bits;
};

// ---- 16-bit formats: widening is exact, narrowing rounds to nearest even ----

static inline float float_of_bits(std::uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
static inline std::uint32_t bits_of_float(float value) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float widen(float v) { return v; }
static inline double widen(double v) { return v; }
static inline float widen(Bfloat16 v) { return float_of_bits(static_cast<std::uint32_t>(v.bits) << 16); }
static inline float widen(Half v) {
#if defined(__F16C__) || defined(__AVX512F__)
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(v.bits)));
#else
  const std::uint32_t sign = static_cast<std::uint32_t>(v.bits & 0x8000u) << 16;
  const std::uint32_t body = static_cast<std::uint32_t>(v.bits & 0x7fffu) << 13;
  if (body >= 0x0f800000u) return float_of_bits(sign | body | 0x7f800000u);
  // Multiplying by 2^112 rebiases the exponent and normalises subnormals in one exact step.
  return float_of_bits(sign | bits_of_float(float_of_bits(body) * 0x1p112f));
#endif
}

template <class S, class T>
static inline S narrow(T value) {
  if constexpr (sizeof(S) == sizeof(T)) {
    return value;
  } else if constexpr (__is_same(S, Bfloat16)) {
    const std::uint32_t bits = bits_of_float(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
      return S{static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
    }
    return S{static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
  } else {
#if defined(__F16C__) || defined(__AVX512F__)
    const __m128i packed = _mm_cvtps_ph(_mm_set_ss(value), _MM_FROUND_TO_NEAREST_INT);
    return S{static_cast<std::uint16_t>(_mm_cvtsi128_si32(packed))};
#else
    const std::uint32_t bits = bits_of_float(value);
    const std::uint32_t sign = (bits >> 16) & 0x8000u;
    const std::uint32_t body = bits & 0x7fffffffu;
    std::uint32_t result = 0;
    if (body > 0x7f800000u) {
      result = 0x7e00u;
    } else if (body >= 0x477ff000u) {
      result = 0x7c00u;
    } else if (body < 0x38800000u) {
      // Adding 0.5 puts the lowest bit of the subnormal result at the end of the fraction.
      result = bits_of_float(float_of_bits(body) + 0.5f) - 0x3f000000u;
    } else {
      result = (body - 0x38000000u + 0xfffu + ((body >> 13) & 1u)) >> 13;
    }
    return S{static_cast<std::uint16_t>(sign | result)};
#endif
  }
}

/// The bits of kLanes<float> elements of 16 bits.
using Halves = VecType<std::uint16_t, kLanes<float>>::type;

#if defined(__AVX512BW__)
inline constexpr Vec<std::uint32_t> kLaneNumbers = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#endif

template <class S>
static inline Vec<float> widened(Halves v) {
  if constexpr (__is_same(S, Bfloat16)) {
#if defined(__AVX512BW__)
    // Puts element i into the upper half of lane i by one instruction; extension and shift would be two.
    const auto index = (__m512i)(kLaneNumbers << 16);
    return (Vec<float>)_mm512_maskz_permutexvar_epi16(0xaaaaaaaau, index, _mm512_castsi256_si512((__m256i)v));
#elif defined(__AVX2__)
    // A load puts all elements into both halves, as fast as into one; a shuffle moves each to the top of its lane.
    constexpr VecType<char, 32>::type kUpper = {-1, -1, 0, 1, -1, -1, 2,  3,  -1, -1, 4,  5,  -1, -1, 6,  7,
                                                -1, -1, 8, 9, -1, -1, 10, 11, -1, -1, 12, 13, -1, -1, 14, 15};
    return (Vec<float>)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256((__m128i)v), (__m256i)kUpper);
#else
    return (Vec<float>)(__builtin_convertvector(v, Vec<std::uint32_t>) << 16);
#endif
  } else {
#if defined(__AVX512F__)
    return (Vec<float>)_mm512_maskz_cvtph_ps(0xffff, (__m256i)v);
#elif defined(__F16C__)
    return (Vec<float>)_mm256_cvtph_ps((__m128i)v);
#else
    Vec<float> wide{};
    for (int i = 0; i < kLanes<float>; ++i) wide[i] = widen(Half{v[i]});
    return wide;
#endif
  }
}

/// Bits of the nearest Bfloat16, ties to even, in the lower half of each lane.
static inline Vec<std::uint32_t> rounded_to_bf16(Vec<float> v) {
  const auto bits = (Vec<std::uint32_t>)v;
  const Vec<std::uint32_t> upper = bits >> 16;
  return v == v ? (bits + ((upper & 1u) + 0x7fffu)) >> 16 : upper | 0x40u;
}

/// Rounds to nearest even.
template <class S>
static inline Halves narrowed(Vec<float> v) {
  if constexpr (__is_same(S, Bfloat16)) {
#if defined(__AVX512BW__)
    const auto bits = (__m512i)v;
    __m512i rounded = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
    rounded = _mm512_mask_sub_epi32(rounded, _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000)), rounded,
                                    _mm512_set1_epi32(-1));
    const __mmask16 no_number = _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_UNORD_Q);
    rounded = _mm512_mask_or_epi32(rounded, no_number, bits, _mm512_set1_epi32(0x400000));
    const auto index = (__m512i)(kLaneNumbers * 0x40004 + 0x30001);  // the upper halves
    const auto upper = (VecType<std::uint16_t, 32>::type)_mm512_maskz_permutexvar_epi16(~0u, index, rounded);
    return __builtin_shufflevector(upper, upper, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#elif defined(__AVX2__)
    const auto rounded = (__m256i)rounded_to_bf16(v);
    return (Halves)_mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
#else
    return __builtin_convertvector(rounded_to_bf16(v), Halves);
#endif
  } else {
#if defined(__AVX512F__)
    return (Halves)_mm512_maskz_cvtps_ph(0xffff, (__m512)v, _MM_FROUND_TO_NEAREST_INT);
#elif defined(__F16C__)
    return (Halves)_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT);
#else
    Halves half{};
    for (int i = 0; i < kLanes<float>; ++i) half[i] = narrow<Half>(v[i]).bits;
    return half;
#endif
  }
}

/// Two vectors, rounded to nearest even.
template <class S>
static inline typename VecType<std::uint16_t, 2 * kLanes<float>>::type narrowed_pair(Vec<float> low, Vec<float> high) {
  using Pair = typename VecType<std::uint16_t, 2 * kLanes<float>>::type;
#if defined(__AVX2__) && !defined(__AVX512F__)
  if constexpr (__is_same(S, Bfloat16)) {
    const __m256i packed = _mm256_packus_epi32((__m256i)rounded_to_bf16(low), (__m256i)rounded_to_bf16(high));
    return (Pair)_mm256_permute4x64_epi64(packed, 0xd8);  // packing keeps the halves of vectors apart
  } else {
    return (Pair)_mm256_set_m128i((__m128i)narrowed<S>(high), (__m128i)narrowed<S>(low));
  }
#else
  const Halves halves[] = {narrowed<S>(low), narrowed<S>(high)};
  Pair pair;
  __builtin_memcpy(&pair, halves, sizeof pair);
  return pair;
#endif
}

/// Loads kLanes<float> elements of a float type, widened exactly.
static inline Vec<float> load_widened(const float* p) { return load(p); }
template <class S>
static inline Vec<float> load_widened(const S* p) {
  return widened<S>(load<std::uint16_t, kLanes<float>>(reinterpret_cast<const std::uint16_t*>(p)));
}
/// Loads the first n of them, zero elsewhere; memory after them is not accessed.
static inline Vec<float> load_widened(const float* p, int n) { return load_lanes(p, 0, n); }
template <class S>
static inline Vec<float> load_widened(const S* p, int n) {
  if (n == kLanes<float>) return load_widened(p);
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  return widened<S>((Halves)_mm256_maskz_loadu_epi16(static_cast<__mmask16>(0xffffu >> (16 - n)), p));
#elif defined(__AVX2__)
  if (n == 0) return Vec<float>{};
  // Pairs by a masked load, then the last element, which may have none: a vector that was stored in parts would have
  // to wait for the stores.
  const VecType<std::int32_t, 4>::type pair{0, 1, 2, 3};
  const VecType<std::int16_t, 8>::type lane{0, 1, 2, 3, 4, 5, 6, 7};
  const __m128i pairs = _mm_maskload_epi32(reinterpret_cast<const int*>(p), (__m128i)(pair < n / 2));
  const __m128i last = _mm_set1_epi16(static_cast<short>(p[n - 1].bits));
  return widened<S>((Halves)_mm_blendv_epi8(pairs, last, (__m128i)(lane == static_cast<std::int16_t>(n - 1))));
#else
  S line[kLanes<float>] = {};
  for (int i = 0; i < n; ++i) line[i] = p[i];
  return load_widened(line);
#endif
}

/// Stores kLanes<float> elements, rounded to nearest even.
static inline void store_narrowed(float* p, Vec<float> v) { store(p, v); }
template <class S>
static inline void store_narrowed(S* p, Vec<float> v) {
  store<std::uint16_t, kLanes<float>>(reinterpret_cast<std::uint16_t*>(p), narrowed<S>(v));
}
/// Stores the first n of them.
static inline void store_narrowed(float* p, Vec<float> v, int n) { store_lanes(p, v, n); }
template <class S>
static inline void store_narrowed(S* p, Vec<float> v, int n) {
  if (n == kLanes<float>) return store_narrowed(p, v);
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  _mm256_mask_storeu_epi16(p, static_cast<__mmask16>(0xffffu >> (16 - n)), (__m256i)narrowed<S>(v));
#else
  S line[kLanes<float>];
  store_narrowed(line, v);
  for (int i = 0; i < n; ++i) p[i] = line[i];
#endif
}

// ---- transposes ----

/// Exchanges the off-diagonal blocks of size Step of two rows of an N x N matrix.
template <int N, int Step, class V, std::size_t... I>
static inline void exchange(V& a, V& b, std::index_sequence<I...>) {
  const V low =
      __builtin_shufflevector(a, b, ((I & Step) != 0 ? static_cast<int>(N + I - Step) : static_cast<int>(I))...);
  const V high =
      __builtin_shufflevector(a, b, ((I & Step) != 0 ? static_cast<int>(N + I) : static_cast<int>(I + Step))...);
  a = low;
  b = high;
}

template <int N, int Step, class V>
static inline void transpose_steps(V (&rows)[N]) {
  if constexpr (Step < N) {
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) {
      if ((i & Step) == 0) {
        exchange<N, Step>(rows[i], rows[i + Step], std::make_index_sequence<N>{});
      }
    }
    transpose_steps<N, Step * 2>(rows);
  }
}

/// Transposes an N x N block in N vectors of N lanes.
template <int N, class V>
static inline void transpose(V (&rows)[N]) {
  transpose_steps<N, 1>(rows);
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
