// Transposes of matrices, widened to fp32 on load and narrowed on store. int8 is widened, too; sums of its products
// are stored as integers.
// SPDX-License-Identifier: MIT
#pragma once
#include "base/dtype.h"
#include "kernels/cpu/isa/store_results.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

using Floats = Vec<float>;

static inline float widen(std::int8_t v) { return v; }
static inline Floats load_widened(const std::int8_t* p) {
#if defined(__AVX512F__)
  const auto wide =
      (Vec<std::int32_t>)_mm512_maskz_cvtepi8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#elif defined(__AVX2__)
  const auto wide = (Vec<std::int32_t>)_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
#else
  const auto wide = load<std::int8_t, kLanes<float>>(p);
#endif
  return __builtin_convertvector(wide, Floats);
}
static inline Floats load_widened(const std::int8_t* p, int n) {
  if (n == kLanes<float>) return load_widened(p);
  std::int8_t line[kLanes<float>] = {};
  for (int i = 0; i < n; ++i) line[i] = p[i];
  return load_widened(line);
}

/// An element of type R for exact sums of int8 products; tells the stores from those of float results.
template <class R>
struct Integer {
  R value;
};
template <class R>
inline constexpr bool kIsInteger = false;
template <class R>
inline constexpr bool kIsInteger<Integer<R>> = true;

/// Calls use(p) with the result of sums of int8 products, as a pointer to Integer of its type.
template <class Use>
static inline void with_integers(DataType type, void* result, const Use& use) {
  if (type == DataType::kInt8) return use(static_cast<Integer<std::int8_t>*>(result));
  if (type == DataType::kInt32) return use(static_cast<Integer<std::int32_t>*>(result));
  use(static_cast<Integer<float>*>(result));
}

/// dst[e * step + lane] = src[lane * stride + e] for e < count; lanes from `lanes` on are zero.
template <class T>
static inline void transpose_in(const T* src, i64 stride, int lanes, i64 count, float* dst, i64 step) {
  constexpr int kN = kLanes<float>;
  for (i64 e = 0; e < count; e += kN) {
    const int some = static_cast<int>(min_of<i64>(kN, count - e));
    Floats rows[kN];
    if (some == kN && lanes == kN) {
      for (int l = 0; l < kN; ++l) rows[l] = load_widened(src + l * stride + e);
    } else {
      for (int l = 0; l < kN; ++l) rows[l] = l < lanes ? load_widened(src + l * stride + e, some) : Floats{};
    }
    transpose(rows);
    for (int i = 0; i < some; ++i) store(dst + (e + i) * step, rows[i]);
  }
}

/// result = alpha * sum + beta * result.
struct Scaling {
  float alpha, beta;
};

/// p[i] = alpha * v[i] + beta * p[i] for i < n.
template <class T>
static inline void write_scaled(T* p, Floats v, int n, Scaling s) {
  v *= broadcast(s.alpha);
  if (s.beta != 0) v += load_widened(p, n) * broadcast(s.beta);
  n == kLanes<float> ? store_narrowed(p, v) : store_narrowed(p, v, n);
}

template <class R>
static inline void write_scaled(Integer<R>* p, Floats v, int n, Scaling s) {
  const Emit<std::int32_t, R> emit{s.alpha, s.beta};
  emit(&p->value, __builtin_convertvector(v, Vec<std::int32_t>), n);
}

/// The inverse of transpose_in, scaled: dst[lane * stride + e] = alpha * src[e * step + lane] + beta * dst[...].
template <class T>
static inline void transpose_out(const float* src, i64 step, T* dst, i64 stride, int lanes, i64 count, Scaling s) {
  constexpr int kN = kLanes<float>;
  for (i64 e = 0; e < count; e += kN) {
    const int some = static_cast<int>(min_of<i64>(kN, count - e));
    Floats rows[kN];
    for (int i = 0; i < kN; ++i) rows[i] = i < some ? load(src + (e + i) * step) : Floats{};
    transpose(rows);
    for (int l = 0; l < lanes; ++l) write_scaled(dst + l * stride + e, rows[l], some, s);
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
