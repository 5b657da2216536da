// Element types and their conversions to and from float: IEEE binary16, bfloat16 and the OCP 8-bit
// formats e4m3fn (kFloat8) and e5m2 (kBFloat8). Conversions round to nearest even.
// SPDX-License-Identifier: MIT
#pragma once
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace polymio {

/// Numbers equal miopenDataType_t.
enum class DataType : int {
  kHalf = 0,
  kFloat = 1,
  kInt32 = 2,
  kInt8 = 3,
  kBFloat16 = 5,
  kDouble = 6,
  kFloat8 = 7,
  kBFloat8 = 8,
  kInt64 = 9,
};

constexpr bool is_valid(DataType t) {
  const int v = static_cast<int>(t);
  return v >= 0 && v <= 9 && v != 4;
}

constexpr std::size_t size_of(DataType t) {
  switch (t) {
    case DataType::kDouble:
    case DataType::kInt64: return 8;
    case DataType::kFloat:
    case DataType::kInt32: return 4;
    case DataType::kHalf:
    case DataType::kBFloat16: return 2;
    case DataType::kInt8:
    case DataType::kFloat8:
    case DataType::kBFloat8: return 1;
  }
  return 0;
}

constexpr bool is_integer(DataType t) { return t == DataType::kInt8 || t == DataType::kInt32 || t == DataType::kInt64; }

constexpr bool is_fp8(DataType t) { return t == DataType::kFloat8 || t == DataType::kBFloat8; }

/// Short text used in keys and messages: "fp32", "bf16", "int8", ...
constexpr const char* name_of(DataType t) {
  switch (t) {
    case DataType::kHalf: return "fp16";
    case DataType::kFloat: return "fp32";
    case DataType::kInt32: return "int32";
    case DataType::kInt8: return "int8";
    case DataType::kBFloat16: return "bf16";
    case DataType::kDouble: return "fp64";
    case DataType::kFloat8: return "fp8";
    case DataType::kBFloat8: return "bfp8";
    case DataType::kInt64: return "int64";
  }
  return "invalid";
}

namespace dtype {

struct Half {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};
struct Float8 {
  std::uint8_t bits;
};
struct BFloat8 {
  std::uint8_t bits;
};

inline float to_float(BFloat16 v) { return std::bit_cast<float>(std::uint32_t{v.bits} << 16); }

inline BFloat16 to_bfloat16(float f) {
  const auto u = std::bit_cast<std::uint32_t>(f);
  if (std::isnan(f)) return {static_cast<std::uint16_t>((u >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

/// The value of a small float with the given field widths. `finite_top`: e4m3fn, whose top exponent holds finite
/// numbers and whose only NaN is all ones.
template <int kExponent, int kMantissa, bool kFiniteTop>
float expand_small(std::uint32_t bits) {
  constexpr int kBias = (1 << (kExponent - 1)) - 1;
  constexpr std::uint32_t kTop = (1u << kExponent) - 1, kMask = (1u << kMantissa) - 1;
  const std::uint32_t sign = (bits >> (kExponent + kMantissa)) << 31;
  const std::uint32_t e = (bits >> kMantissa) & kTop, m = bits & kMask;
  if (e == 0) {
    const float v = std::ldexp(static_cast<float>(m), 1 - kBias - kMantissa);
    return sign ? -v : v;
  }
  const bool special = kFiniteTop ? (e == kTop && m == kMask) : e == kTop;
  if (special) return std::bit_cast<float>(sign | 0x7f800000u | (kFiniteTop || m ? 0x400000u : 0u));
  return std::bit_cast<float>(sign | ((e + 127 - kBias) << 23) | (m << (23 - kMantissa)));
}

/// Rounds `f` to the small format. `dither` in [0, 2^23) added below the kept bits replaces the
/// round-to-nearest-even increment (stochastic rounding); negative means nearest even.
/// Overflow saturates when `kSaturate`, else gives infinity.
template <int kExponent, int kMantissa, bool kFiniteTop, bool kSaturate>
std::uint32_t compress_small(float f, std::int64_t dither = -1) {
  constexpr int kBias = (1 << (kExponent - 1)) - 1;
  constexpr std::uint32_t kTop = (1u << kExponent) - 1, kMask = (1u << kMantissa) - 1;
  constexpr std::uint32_t kInf = kTop << kMantissa,
                          kNan = kFiniteTop ? (kInf | kMask) : (kInf | (1u << (kMantissa - 1)));
  constexpr std::uint32_t kMax = kFiniteTop ? (kInf | (kMask - 1)) : kInf - 1;
  const auto u = std::bit_cast<std::uint32_t>(f);
  const std::uint32_t sign = (u >> 31) << (kExponent + kMantissa);
  if (std::isnan(f)) return sign | kNan;
  if (std::isinf(f)) return sign | (kSaturate ? kMax : (kFiniteTop ? kNan : kInf));
  int e = static_cast<int>((u >> 23) & 0xff) - 127;
  std::uint64_t m = (u & 0x7fffffu) | (e == -127 ? 0u : 0x800000u);
  if (e == -127) e = -126;
  // Bits dropped: 23 - mantissa for normal results, more for subnormal ones.
  const int drop = 23 - kMantissa + (e < 1 - kBias ? 1 - kBias - e : 0);
  if (drop > 62) return sign;
  const std::uint64_t unit = std::uint64_t{1} << drop;
  if (dither < 0) {
    m += (unit >> 1) - 1 + ((m >> drop) & 1);
  } else {
    const int shift = drop - 23;
    m += shift > 0 ? static_cast<std::uint64_t>(dither) << shift : static_cast<std::uint64_t>(dither) >> -shift;
  }
  m >>= drop;
  const int base = e < 1 - kBias ? 0 : e + kBias - 1;  // the implicit mantissa bit adds 1
  const std::uint64_t code = (static_cast<std::uint64_t>(base) << kMantissa) + m;
  if (code > kMax) return sign | (kSaturate ? kMax : (kFiniteTop ? kNan : kInf));
  return sign | static_cast<std::uint32_t>(code);
}

inline float to_float(Half v) { return expand_small<5, 10, false>(v.bits); }
inline float to_float(Float8 v) { return expand_small<4, 3, true>(v.bits); }
inline float to_float(BFloat8 v) { return expand_small<5, 2, false>(v.bits); }
inline Half to_half(float f) { return {static_cast<std::uint16_t>(compress_small<5, 10, false, false>(f))}; }
inline Float8 to_float8(float f, std::int64_t dither = -1) {
  return {static_cast<std::uint8_t>(compress_small<4, 3, true, true>(f, dither))};
}
inline BFloat8 to_bfloat8(float f, std::int64_t dither = -1) {
  return {static_cast<std::uint8_t>(compress_small<5, 2, false, true>(f, dither))};
}

/// Nearest integer (ties to even) clamped to T; NaN gives 0.
template <class T>
T to_integer(double v) {
  if (std::isnan(v)) return 0;
  const double r = std::nearbyint(v);
  if (r <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  if (r >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(r);
}

/// Element `i` of an array that may start at any address.
template <class T>
T read(const void* base, std::int64_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(base) + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}
template <class T>
void write(void* base, std::int64_t i, T value) {
  std::memcpy(static_cast<char*>(base) + i * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

/// Element `i` of a buffer of type `t`, widened (int64 beyond 2^53 rounds).
inline double load(DataType t, const void* base, std::int64_t i) {
  switch (t) {
    case DataType::kHalf: return to_float(read<Half>(base, i));
    case DataType::kFloat: return read<float>(base, i);
    case DataType::kInt32: return read<std::int32_t>(base, i);
    case DataType::kInt8: return read<std::int8_t>(base, i);
    case DataType::kBFloat16: return to_float(read<BFloat16>(base, i));
    case DataType::kDouble: return read<double>(base, i);
    case DataType::kFloat8: return to_float(read<Float8>(base, i));
    case DataType::kBFloat8: return to_float(read<BFloat8>(base, i));
    case DataType::kInt64: return static_cast<double>(read<std::int64_t>(base, i));
  }
  return 0;
}

/// Rounds `v` to type `t` and stores it as element `i`. Small floats go through float: the double
/// rounding is below the accumulation error of every caller. `dither`: see compress_small.
inline void store(DataType t, void* base, std::int64_t i, double v, std::int64_t dither = -1) {
  const auto f = static_cast<float>(v);
  switch (t) {
    case DataType::kHalf: write<Half>(base, i, to_half(f)); break;
    case DataType::kFloat: write<float>(base, i, f); break;
    case DataType::kInt32: write<std::int32_t>(base, i, to_integer<std::int32_t>(v)); break;
    case DataType::kInt8: write<std::int8_t>(base, i, to_integer<std::int8_t>(v)); break;
    case DataType::kBFloat16: write<BFloat16>(base, i, to_bfloat16(f)); break;
    case DataType::kDouble: write<double>(base, i, v); break;
    case DataType::kFloat8: write<Float8>(base, i, to_float8(f, dither)); break;
    case DataType::kBFloat8: write<BFloat8>(base, i, to_bfloat8(f, dither)); break;
    case DataType::kInt64: write<std::int64_t>(base, i, to_integer<std::int64_t>(v)); break;
  }
}

}  // namespace dtype
}  // namespace polymio
