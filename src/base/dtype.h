// Element types and their conversions to and from float: IEEE binary16, bfloat16, MIOpen's 8-bit floats, which are FNUZ
// formats, and the 8-bit floats of the OCP. Conversions round to nearest even, those to 8 bits saturate.
// SPDX-License-Identifier: MIT
#pragma once
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace polymio {

/// Numbers equal miopenDataType_t and the data types of polymio.h.
enum class DataType : int {
  kHalf = 0,
  kFloat = 1,
  kInt32 = 2,
  kInt8 = 3,
  kBFloat16 = 5,
  kDouble = 6,
  kFloat8Fnuz = 7,
  kBFloat8Fnuz = 8,
  kInt64 = 9,
  kFloat8E4m3fn = 0x100,
  kFloat8E5m2 = 0x101,
};

inline constexpr DataType kDataTypes[] = {DataType::kHalf,         DataType::kFloat,       DataType::kInt32,
                                          DataType::kInt8,         DataType::kBFloat16,    DataType::kDouble,
                                          DataType::kFloat8Fnuz,   DataType::kBFloat8Fnuz, DataType::kInt64,
                                          DataType::kFloat8E4m3fn, DataType::kFloat8E5m2};

constexpr bool is_valid(DataType t) {
  for (const DataType known : kDataTypes)
    if (t == known) return true;
  return false;
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
    case DataType::kFloat8Fnuz:
    case DataType::kBFloat8Fnuz:
    case DataType::kFloat8E4m3fn:
    case DataType::kFloat8E5m2: return 1;
  }
  return 0;
}

constexpr bool is_integer(DataType t) { return t == DataType::kInt8 || t == DataType::kInt32 || t == DataType::kInt64; }

constexpr bool is_fp8(DataType t) { return size_of(t) == 1 && t != DataType::kInt8; }

/// Short text used in keys and messages: "fp32", "bf16", "int8", ... MIOpen's driver calls its 8-bit floats fp8 and
/// bfp8.
constexpr const char* name_of(DataType t) {
  switch (t) {
    case DataType::kHalf: return "fp16";
    case DataType::kFloat: return "fp32";
    case DataType::kInt32: return "int32";
    case DataType::kInt8: return "int8";
    case DataType::kBFloat16: return "bf16";
    case DataType::kDouble: return "fp64";
    case DataType::kFloat8Fnuz: return "fp8";
    case DataType::kBFloat8Fnuz: return "bfp8";
    case DataType::kInt64: return "int64";
    case DataType::kFloat8E4m3fn: return "fp8_e4m3fn";
    case DataType::kFloat8E5m2: return "fp8_e5m2";
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
struct Float8Fnuz {
  std::uint8_t bits;
};
struct BFloat8Fnuz {
  std::uint8_t bits;
};
struct Float8E4m3fn {
  std::uint8_t bits;
};
struct Float8E5m2 {
  std::uint8_t bits;
};

inline float to_float(BFloat16 v) { return std::bit_cast<float>(std::uint32_t{v.bits} << 16); }

inline BFloat16 to_bfloat16(float f) {
  const auto u = std::bit_cast<std::uint32_t>(f);
  if (std::isnan(f)) return {static_cast<std::uint16_t>((u >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

/// The codes of a small float that are no numbers. kIeee: infinities and NaNs have the largest exponent. kAllOnes: NaNs
/// are all ones, and there is no infinity. kFnuz: the only one is a NaN in the place of -0, and the bias is one larger.
enum class Specials { kIeee, kAllOnes, kFnuz };

/// A float of a sign bit, `exponent` bits and `mantissa` bits.
struct SmallFormat {
  int exponent, mantissa;
  Specials specials;
  bool saturates;  // numbers beyond the largest become the largest, else infinity

  consteval int bias() const { return (1 << (exponent - 1)) - (specials == Specials::kFnuz ? 0 : 1); }
  consteval std::uint32_t sign_bit() const { return 1u << (exponent + mantissa); }
  consteval std::uint32_t infinity() const { return sign_bit() - (1u << mantissa); }
  /// The largest number.
  consteval std::uint32_t max() const {
    return specials == Specials::kFnuz      ? sign_bit() - 1
           : specials == Specials::kAllOnes ? sign_bit() - 2
                                            : infinity() - 1;
  }
  consteval std::uint32_t nan() const {
    if (specials == Specials::kFnuz) return sign_bit();
    return saturates ? sign_bit() - 1 : infinity() | 1u << (mantissa - 1);
  }
};

template <class T>
inline constexpr SmallFormat kFormat{};
template <>
inline constexpr SmallFormat kFormat<Half>{5, 10, Specials::kIeee, false};
template <>
inline constexpr SmallFormat kFormat<Float8Fnuz>{4, 3, Specials::kFnuz, true};
template <>
inline constexpr SmallFormat kFormat<BFloat8Fnuz>{5, 2, Specials::kFnuz, true};
template <>
inline constexpr SmallFormat kFormat<Float8E4m3fn>{4, 3, Specials::kAllOnes, true};
template <>
inline constexpr SmallFormat kFormat<Float8E5m2>{5, 2, Specials::kIeee, true};

template <class T>
concept SmallFloat = kFormat<T>
.exponent > 0;

template <SmallFormat kF>
float expand_small(std::uint32_t bits) {
  const std::uint32_t sign = (bits & kF.sign_bit()) << (31 - kF.exponent - kF.mantissa),
                      body = bits & (kF.sign_bit() - 1);
  if (kF.specials == Specials::kFnuz ? bits == kF.nan() : body > kF.max())
    return std::bit_cast<float>(sign | 0x7f800000u |
                                (kF.specials == Specials::kIeee && body == kF.infinity() ? 0 : 0x400000u));
  if (body < 1u << kF.mantissa) {
    const float v = std::ldexp(static_cast<float>(body), 1 - kF.bias() - kF.mantissa);
    return sign ? -v : v;
  }
  constexpr std::uint32_t kBiases = 127u - static_cast<std::uint32_t>(kF.bias());
  return std::bit_cast<float>(sign | ((body << (23 - kF.mantissa)) + (kBiases << 23)));
}

/// Rounds `f` to the small format. `dither` in [0, 2^23) added below the kept bits replaces the
/// round-to-nearest-even increment (stochastic rounding); negative means nearest even.
/// A format that saturates has one code for NaNs of either sign. Infinities are NaNs in FNUZ formats.
template <SmallFormat kF>
std::uint32_t compress_small(float f, std::int64_t dither = -1) {
  constexpr bool kFnuz = kF.specials == Specials::kFnuz;
  constexpr int kBias = kF.bias();
  const auto u = std::bit_cast<std::uint32_t>(f);
  const std::uint32_t sign = u >> 31 ? kF.sign_bit() : 0;
  if (std::isnan(f) || (kFnuz && std::isinf(f))) return kF.nan() | (kF.saturates ? 0 : sign);
  if (std::isinf(f)) return sign | (kF.saturates ? kF.max() : kF.infinity());
  int e = static_cast<int>((u >> 23) & 0xff) - 127;
  std::uint64_t m = (u & 0x7fffffu) | (e == -127 ? 0u : 0x800000u);
  if (e == -127) e = -126;
  // Bits dropped: 23 - mantissa for normal results, more for subnormal ones.
  const int drop = 23 - kF.mantissa + (e < 1 - kBias ? 1 - kBias - e : 0);
  if (drop > 62) return kFnuz ? 0 : sign;
  const std::uint64_t unit = std::uint64_t{1} << drop;
  if (dither < 0) {
    m += (unit >> 1) - 1 + ((m >> drop) & 1);
  } else {
    const int shift = drop - 23;
    m += shift > 0 ? static_cast<std::uint64_t>(dither) << shift : static_cast<std::uint64_t>(dither) >> -shift;
  }
  m >>= drop;
  const int base = e < 1 - kBias ? 0 : e + kBias - 1;  // the implicit mantissa bit adds 1
  const std::uint64_t code = (static_cast<std::uint64_t>(base) << kF.mantissa) + m;
  if (code > kF.max()) return sign | (kF.saturates ? kF.max() : kF.infinity());
  return (kFnuz && code == 0 ? 0 : sign) | static_cast<std::uint32_t>(code);
}

template <SmallFloat T>
float to_float(T v) {
  return expand_small<kFormat<T>>(v.bits);
}
template <SmallFloat T>
T to_small(float f, std::int64_t dither = -1) {
  return {static_cast<decltype(T::bits)>(compress_small<kFormat<T>>(f, dither))};
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
double load(DataType t, const void* base, std::int64_t i);

/// Rounds `v` to type `t` and stores it as element `i`. Small floats go through float: the double
/// rounding is below the accumulation error of every caller. `dither`: see compress_small.
void store(DataType t, void* base, std::int64_t i, double v, std::int64_t dither = -1);

/// Elements [first, first + n), widened.
void load_many(DataType t, const void* base, std::int64_t first, std::int64_t n, double* values);

/// Rounds n values and stores them as elements [first, first + n).
void store_many(DataType t, void* base, std::int64_t first, std::int64_t n, const double* values);

}  // namespace dtype
}  // namespace polymio
