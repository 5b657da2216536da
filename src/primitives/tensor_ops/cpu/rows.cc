// Conversions of rows of elements, branch-free where this lets the compiler vectorize them.
// SPDX-License-Identifier: MIT
#include "primitives/tensor_ops/cpu/rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "base/error.h"

namespace polymio::tensor_ops {
namespace {

using dtype::BFloat16;
using dtype::Half;

template <class T>
constexpr bool kSmallFloat = dtype::SmallFloat<T> || std::is_same_v<T, BFloat16>;

template <class T>
const std::array<float, 256>& byte_values() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> v{};
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = dtype::to_float(T{static_cast<std::uint8_t>(i)});
    return v;
  }();
  return values;
}

/// Branch-free selection, whatever the compiler knows about the values.
template <class Bits>
Bits select(bool condition, Bits yes, Bits no) {
  const Bits mask = Bits{0} - Bits{condition};
  return (yes & mask) | (no & ~mask);
}

// Signed comparison of bit patterns below 2^31: every vector unit has it, unlike the unsigned one.
bool below(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a) < static_cast<std::int32_t>(b); }

float widen(Half v) {
  const std::uint32_t sign = std::uint32_t{v.bits & 0x8000u} << 16, body = std::uint32_t{v.bits & 0x7fffu} << 13;
  // Multiplying by 2^112 moves the exponent and normalises subnormals, exactly.
  const auto finite = std::bit_cast<std::uint32_t>(std::bit_cast<float>(body) * 0x1p112f);
  return std::bit_cast<float>(sign | select(below(body, 0x0f800000u), finite, body | 0x7f800000u));
}

Half narrow_half(float f) {
  const auto u = std::bit_cast<std::uint32_t>(f);
  const std::uint32_t body = u & 0x7fffffffu;
  const std::uint32_t rounded = (body - 0x38000000u + 0xfffu + ((body >> 13) & 1u)) >> 13;
  const std::uint32_t normal = select(below(rounded, 0x7c00u), rounded, 0x7c00u);
  // Adding 0.5 leaves the last kept bit of a subnormal at the end of the fraction.
  const std::uint32_t tiny = std::bit_cast<std::uint32_t>(std::bit_cast<float>(body) + 0.5f) - 0x3f000000u;
  const std::uint32_t number = select(below(body, 0x38800000u), tiny, normal);
  return {static_cast<std::uint16_t>((u >> 16 & 0x8000u) | select(below(0x7f800000u, body), 0x7e00u, number))};
}

/// As dtype::to_small.
template <class T>
T narrow_byte(float f) {
  constexpr dtype::SmallFormat kF = dtype::kFormat<T>;
  constexpr bool kFnuz = kF.specials == dtype::Specials::kFnuz;
  constexpr int kDropped = 23 - kF.mantissa;
  constexpr std::uint32_t kBiases = 127u - static_cast<std::uint32_t>(kF.bias());
  const auto u = std::bit_cast<std::uint32_t>(f);
  const std::uint32_t body = u & 0x7fffffffu;
  const std::uint32_t rounded =
      (body - (kBiases << 23) + (1u << (kDropped - 1)) - 1 + ((body >> kDropped) & 1u)) >> kDropped;
  const std::uint32_t normal = select(below(rounded, kF.max()), rounded, kF.max());
  // Adding a number whose last bit is the smallest subnormal leaves the multiple of that at the end of the fraction.
  constexpr std::uint32_t kUnit = (kBiases + 1 + static_cast<std::uint32_t>(kDropped)) << 23;
  const std::uint32_t tiny =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(body) + std::bit_cast<float>(kUnit)) - kUnit;
  const std::uint32_t number = select(below(body, (kBiases + 1) << 23), tiny, normal);
  const std::uint32_t sign = u >> 24 & 0x80u;
  const std::uint32_t code = number | (kFnuz ? select(number != 0, sign, 0u) : sign);
  return {static_cast<std::uint8_t>(select(below(kFnuz ? 0x7f7fffffu : 0x7f800000u, body), kF.nan(), code))};
}

BFloat16 narrow_bfloat16(float f) {
  const auto u = std::bit_cast<std::uint32_t>(f);
  const std::uint32_t number = u + 0x7fffu + ((u >> 16) & 1u);
  return {static_cast<std::uint16_t>(select(below(0x7f800000u, u & 0x7fffffffu), u | 0x400000u, number) >> 16)};
}

/// Round to odd: `d` truncated to float with the last bit set if inexact. Rounding the result to a narrower format
/// equals rounding `d` itself.
float round_to_odd(double d) {
  const auto f = static_cast<float>(d);
  const double back = f;
  if (back == d || std::isnan(d)) return f;
  const bool away = std::fabs(back) > std::fabs(d);
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(f) - (away ? 1u : 0u)) | 1u);
}
float round_to_odd(float f) { return f; }

template <class T>
T narrow_small(float f) {
  if constexpr (std::is_same_v<T, Half>)
    return narrow_half(f);
  else if constexpr (std::is_same_v<T, BFloat16>)
    return narrow_bfloat16(f);
  else
    return narrow_byte<T>(f);
}

/// For integers narrower than the fraction of D: adding kShift leaves the rounded integer in the low bits.
template <class T, class D>
T round_narrow(D v) {
  using Bits = std::conditional_t<std::is_same_v<D, float>, std::uint32_t, std::uint64_t>;
  constexpr D kShift = std::is_same_v<D, float> ? D(0x1.8p23) : D(0x1.8p52);
  constexpr D kLow = D(std::numeric_limits<T>::min()), kHigh = D(std::numeric_limits<T>::max());
  const auto choose = [](bool condition, D yes, D no) {
    return std::bit_cast<D>(select(condition, std::bit_cast<Bits>(yes), std::bit_cast<Bits>(no)));
  };
  const D number = choose(v == v, v, D(0));
  const D above = choose(number < kLow, kLow, number);
  const D clamped = choose(above > kHigh, kHigh, above);
  return static_cast<T>(std::bit_cast<Bits>(clamped + kShift) - std::bit_cast<Bits>(kShift));
}

template <class T, class D>
T narrow(D v) {
  if constexpr (std::is_same_v<D, Wide>) {
    return static_cast<T>(std::clamp<Wide>(v, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  } else if constexpr (kSmallFloat<T>) {
    return narrow_small<T>(round_to_odd(v));
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(v);
  } else if constexpr (sizeof(T) < sizeof(D)) {
    return round_narrow<T>(v);
  } else {
    return dtype::to_integer<T>(v);
  }
}

template <class T, class D>
struct Widen {
  D operator()(T v) const {
    if constexpr (std::is_same_v<T, Half>)
      return widen(v);
    else if constexpr (std::is_same_v<T, BFloat16>)
      return dtype::to_float(v);
    else if constexpr (kSmallFloat<T>)
      return table[v.bits];
    else
      return static_cast<D>(v);
  }
  const float* table = nullptr;
};

template <class T, class D>
void read_row(const void* src, std::int64_t stride, std::int64_t n, D* dst) {
  const T* p = static_cast<const T*>(src);
  Widen<T, D> widened;
  if constexpr (kSmallFloat<T> && sizeof(T) == 1) widened.table = byte_values<T>().data();
  if (stride == 1) {
    for (std::int64_t i = 0; i < n; ++i) dst[i] = widened(p[i]);
  } else if (stride == 0) {
    std::fill_n(dst, n, widened(p[0]));
  } else {
    for (std::int64_t i = 0; i < n; ++i) dst[i] = widened(p[i * stride]);
  }
}

template <class T, class D>
void write_row(const D* src, std::int64_t n, void* dst, std::int64_t stride) {
  T* p = static_cast<T*>(dst);
  if (stride == 1) {
    for (std::int64_t i = 0; i < n; ++i) p[i] = narrow<T>(src[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) p[i * stride] = narrow<T>(src[i]);
  }
}

template <class D, class F>
auto with_type(DataType type, F f) {
  switch (type) {
    case DataType::kInt32: return f.template operator()<std::int32_t>();
    case DataType::kInt8: return f.template operator()<std::int8_t>();
    case DataType::kInt64: return f.template operator()<std::int64_t>();
    default: break;
  }
  if constexpr (!std::is_same_v<D, Wide>) {
    switch (type) {
      case DataType::kHalf: return f.template operator()<Half>();
      case DataType::kFloat: return f.template operator()<float>();
      case DataType::kBFloat16: return f.template operator()<BFloat16>();
      case DataType::kDouble: return f.template operator()<double>();
      case DataType::kFloat8Fnuz: return f.template operator()<dtype::Float8Fnuz>();
      case DataType::kBFloat8Fnuz: return f.template operator()<dtype::BFloat8Fnuz>();
      case DataType::kFloat8E4m3fn: return f.template operator()<dtype::Float8E4m3fn>();
      case DataType::kFloat8E5m2: return f.template operator()<dtype::Float8E5m2>();
      default: break;
    }
  }
  fail(Status::kInternalError, "no rows of {} in this arithmetic", name_of(type));
}

}  // namespace

template <class D>
ReadRow<D> reader(DataType type) {
  return with_type<D>(type, []<class T>() -> ReadRow<D> { return &read_row<T, D>; });
}

template <class D>
WriteRow<D> writer(DataType type) {
  return with_type<D>(type, []<class T>() -> WriteRow<D> { return &write_row<T, D>; });
}

template ReadRow<float> reader(DataType);
template ReadRow<double> reader(DataType);
template ReadRow<Wide> reader(DataType);
template WriteRow<float> writer(DataType);
template WriteRow<double> writer(DataType);
template WriteRow<Wide> writer(DataType);

}  // namespace polymio::tensor_ops
