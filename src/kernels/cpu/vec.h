// Vectors of the instruction set a file is compiled for: compiler vector types, partial loads and
// stores, 16-bit conversions and small transposes. Include only from files in kernels/cpu/isa.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

// Every function lives in a namespace named after the instruction set: two levels never share a
// symbol, so the linker cannot mix them. Standard library functions are avoided for that reason.
namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

using i64 = std::int64_t;

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64, kRegisters = 32;
inline constexpr bool kMaskedLoads = true, kMaskedStores = true;  // load_lanes, store_lanes are few instructions
inline constexpr int kRowsPerTile = 8;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32, kRegisters = 16;
inline constexpr bool kMaskedLoads = true, kMaskedStores = false;
inline constexpr int kRowsPerTile = 4;
#else
inline constexpr int kVectorBytes = 16, kRegisters = 16;
inline constexpr bool kMaskedLoads = false, kMaskedStores = false;
inline constexpr int kRowsPerTile = 4;
#endif

/// Storage types of the 16-bit formats.
struct Half {
  std::uint16_t bits;
};
struct Bfloat16 {
  std::uint16_t bits;
};

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

#if defined(__AVX512F__)
/// Lanes [lo, hi) of the vector at p, zero elsewhere; memory outside the range is not touched.
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
/// All bits of lanes [lo, hi), for masked loads.
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
// In halves: masked stores take tens of cycles on some processors.
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
/// Every second element: lane i is p[2 * i] for lo <= i < hi, zero elsewhere; memory outside p[2 * lo]
/// to p[2 * hi - 2] is not touched.
template <class T, std::size_t... I>
static inline Vec<T> load_even(const T* p, int lo, int hi, std::index_sequence<I...>) {
  constexpr int kN = kLanes<T>;
  const int first = 2 * lo, last = 2 * hi - 1;
  const Vec<T> a = load_lanes(p, min_of(first, kN), max_of(min_of(last, kN), 0));
  const Vec<T> b = load_lanes(p + kN, min_of(max_of(first - kN, 0), kN), max_of(last - kN, 0));
  return __builtin_shufflevector(a, b, static_cast<int>(2 * I)...);
}
/// Lane i is p[kStride * i] for lo <= i < hi, zero elsewhere; kStride is 1 or 2.
template <int kStride, class T>
static inline Vec<T> load_steps(const T* p, int lo, int hi) {
  if constexpr (kStride == 1) {
    return load_lanes(p, lo, hi);
  } else {
    return load_even(p, lo, hi, std::make_index_sequence<kLanes<T>>{});
  }
}
#endif

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
static inline float widen(Bfloat16 v) {
  return float_of_bits(static_cast<std::uint32_t>(v.bits) << 16);
}
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
      // Adding 0.5 puts the last kept bit of a subnormal at the end of the fraction.
      result = bits_of_float(float_of_bits(body) + 0.5f) - 0x3f000000u;
    } else {
      result = (body - 0x38000000u + 0xfffu + ((body >> 13) & 1u)) >> 13;
    }
    return S{static_cast<std::uint16_t>(sign | result)};
#endif
  }
}

/// kLanes<float> elements of a float type, widened exactly.
static inline Vec<float> load_widened(const float* p) { return load(p); }
static inline Vec<float> load_widened(const Bfloat16* p) {
  const auto bits = load<std::uint16_t, kLanes<float>>(reinterpret_cast<const std::uint16_t*>(p));
  return (Vec<float>)(__builtin_convertvector(bits, Vec<std::uint32_t>) << 16);
}
static inline Vec<float> load_widened(const Half* p) {
#if defined(__AVX512F__)
  return (Vec<float>)_mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif defined(__F16C__)
  return (Vec<float>)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#else
  Vec<float> v{};
  for (int i = 0; i < kLanes<float>; ++i) v[i] = widen(p[i]);
  return v;
#endif
}
/// The first n of them, zero elsewhere; memory behind them is not touched.
static inline Vec<float> load_widened(const float* p, int n) { return load_lanes(p, 0, n); }
template <class S>
static inline Vec<float> load_widened(const S* p, int n) {
  if (n == kLanes<float>) return load_widened(p);
  S line[kLanes<float>] = {};
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  const auto mask = static_cast<__mmask16>(0xffffu >> (16 - n));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(line), _mm256_maskz_loadu_epi16(mask, p));
#else
  for (int i = 0; i < n; ++i) line[i] = p[i];
#endif
  return load_widened(line);
}

/// kLanes<float> elements rounded to nearest even.
static inline void store_narrowed(float* p, Vec<float> v) { store(p, v); }
static inline void store_narrowed(Bfloat16* p, Vec<float> v) {
  const auto bits = (Vec<std::uint32_t>)v;
  const Vec<std::uint32_t> quiet = (bits >> 16) | 0x40u;
  const Vec<std::uint32_t> near = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const Vec<std::uint32_t> result = (bits & 0x7fffffffu) > 0x7f800000u ? quiet : near;
  store<std::uint16_t, kLanes<float>>(
      reinterpret_cast<std::uint16_t*>(p),
      __builtin_convertvector(result, typename VecType<std::uint16_t, kLanes<float>>::type));
}
static inline void store_narrowed(Half* p, Vec<float> v) {
#if defined(__AVX512F__)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_maskz_cvtps_ph(0xffff, (__m512)v, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
#else
  for (int i = 0; i < kLanes<float>; ++i) p[i] = narrow<Half>(v[i]);
#endif
}
/// The first n of them.
static inline void store_narrowed(float* p, Vec<float> v, int n) { store_lanes(p, v, n); }
template <class S>
static inline void store_narrowed(S* p, Vec<float> v, int n) {
  if (n == kLanes<float>) return store_narrowed(p, v);
  S line[kLanes<float>];
  store_narrowed(line, v);
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  const auto mask = static_cast<__mmask16>(0xffffu >> (16 - n));
  _mm256_mask_storeu_epi16(p, mask, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(line)));
#else
  for (int i = 0; i < n; ++i) p[i] = line[i];
#endif
}

// ---- transposes ----

/// Exchanges the off-diagonal blocks of size Step of two rows of an N x N matrix.
template <int N, int Step, class V, std::size_t... I>
static inline void exchange(V& a, V& b, std::index_sequence<I...>) {
  const V low = __builtin_shufflevector(
      a, b, ((I & Step) != 0 ? static_cast<int>(N + I - Step) : static_cast<int>(I))...);
  const V high = __builtin_shufflevector(
      a, b, ((I & Step) != 0 ? static_cast<int>(N + I) : static_cast<int>(I + Step))...);
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

/// Transposes an N x N block held in N vectors of N lanes.
template <int N, class V>
static inline void transpose(V (&rows)[N]) {
  transpose_steps<N, 1>(rows);
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
