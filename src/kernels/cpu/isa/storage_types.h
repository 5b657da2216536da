// Storage types of tensors: vectors of them in the type of the arithmetic, and dispatch by DataType. int8 is widened to
// fp32; sums of its products are stored as integers.
// SPDX-License-Identifier: MIT
#pragma once
#include "base/dtype.h"
#include "kernels/cpu/vec.h"

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

/// Returns visit(result) with the result of sums of int8 products as a pointer to Integer of its type.
template <class Visit>
static inline auto with_integers(DataType type, void* result, const Visit& visit) {
  if (type == DataType::kInt8) return visit(static_cast<Integer<std::int8_t>*>(result));
  if (type == DataType::kInt32) return visit(static_cast<Integer<std::int32_t>*>(result));
  return visit(static_cast<Integer<float>*>(result));
}

/// A vector of the arithmetic's type T from elements of storage type S; with n: the first n, zero in the other lanes.
template <class T, class S>
static inline Vec<T> fetch_vector(const S* p) {
  if constexpr (sizeof(T) == sizeof(double)) {
    return load(p);
  } else {
    return load_widened(p);
  }
}
template <class T, class S>
static inline Vec<T> fetch_vector(const S* p, int n) {
  if constexpr (sizeof(T) == sizeof(double)) {
    return load_lanes(p, 0, n);
  } else {
    return load_widened(p, n);
  }
}

/// Stores the vector of type T as elements of storage type S; with n: the first n.
template <class T, class S>
static inline void put_vector(S* p, Vec<T> v) {
  if constexpr (sizeof(T) == sizeof(double)) {
    store(p, v);
  } else {
    store_narrowed(p, v);
  }
}
template <class T, class S>
static inline void put_vector(S* p, Vec<T> v, int n) {
  if constexpr (sizeof(T) == sizeof(double)) {
    store_lanes(p, v, n);
  } else {
    store_narrowed(p, v, n);
  }
}

/// Returns visit(null pointer to S) with S: the storage type of a float type that the arithmetic computes as T.
template <class T, class Visit>
static inline auto with_storage(DataType type, const Visit& visit) {
  if constexpr (sizeof(T) == sizeof(double)) {
    return visit(static_cast<double*>(nullptr));
  } else {
    if (type == DataType::kHalf) return visit(static_cast<Half*>(nullptr));
    if (type == DataType::kBFloat16) return visit(static_cast<Bfloat16*>(nullptr));
    return visit(static_cast<float*>(nullptr));
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
