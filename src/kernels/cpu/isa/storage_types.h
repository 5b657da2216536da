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
[[gnu::always_inline]] static inline auto with_integers(DataType type, void* result, const Visit& visit) {
  if (type == DataType::kInt8) return visit(static_cast<Integer<std::int8_t>*>(result));
  if (type == DataType::kInt32) return visit(static_cast<Integer<std::int32_t>*>(result));
  return visit(static_cast<Integer<float>*>(result));
}

/// Exact sums of int8 products in memory, as elements of a type that only the stores ask for: kernels are compiled once
/// for all of these types.
class IntegerPointer {
 public:
  IntegerPointer() = default;
  IntegerPointer(DataType type, void* first)
      : bytes_(static_cast<char*>(first)), type_(type), shift_(type == DataType::kInt8 ? 0 : 2) {}

  IntegerPointer& operator+=(i64 elements) {
    bytes_ += elements << shift_;
    return *this;
  }
  IntegerPointer operator+(i64 elements) const { return IntegerPointer(*this) += elements; }
  /// Calls use(pointer to Integer of the type).
  template <class Use>
  [[gnu::always_inline]] void with_type(const Use& use) const {
    with_integers(type_, bytes_, use);
  }

 private:
  char* bytes_ = nullptr;
  DataType type_ = DataType::kInt8;
  int shift_ = 0;  // log2 of an element's bytes
};

/// The results of a kernel: elements of type R, or exact sums of int8 products if R is AnyInteger.
struct AnyInteger {};
template <class R>
struct Results {
  using Pointer = R*;
  static Pointer at(DataType, void* first) { return static_cast<R*>(first); }
  static i64 element_bytes(DataType) { return sizeof(R); }
};
template <>
struct Results<AnyInteger> {
  using Pointer = IntegerPointer;
  static Pointer at(DataType type, void* first) { return {type, first}; }
  static i64 element_bytes(DataType type) { return static_cast<i64>(size_of(type)); }
};

/// Calls use(typed pointer).
template <class R, class Use>
[[gnu::always_inline]] inline void with_type_of(R* results, const Use& use) {
  use(results);
}
template <class Use>
[[gnu::always_inline]] inline void with_type_of(IntegerPointer results, const Use& use) {
  results.with_type(use);
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
