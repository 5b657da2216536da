// One generic rounding to "p significant bits, exponents from e_min, at most max" and one generic
// coder of the bit fields serve every floating-point format.
// SPDX-License-Identifier: MIT
#include "reference/types.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace polymio::reference {
namespace {

struct Format {
  int bits;       // of storage
  int precision;  // significant bits, the hidden one included
  int min_exponent;
  double max;
  bool infinity;  // has infinities, and overflows to them unless it saturates
  bool saturate;
  bool fnuz = false;  // the code of -0 is the only NaN
};

constexpr Format kHalfFormat = {16, 11, -14, 65504.0, true, false};
constexpr Format kFloatFormat = {32, 24, -126, std::numeric_limits<float>::max(), true, false};
constexpr Format kBFloat16Format = {16, 8, -126, 0x1.fep127, true, false};
constexpr Format kDoubleFormat = {64, 53, -1022, std::numeric_limits<double>::max(), true, false};
constexpr Format kFloat8FnuzFormat = {8, 4, -7, 240.0, false, true, true};
constexpr Format kBFloat8FnuzFormat = {8, 3, -15, 57344.0, false, true, true};
constexpr Format kFloat8E4m3fnFormat = {8, 4, -6, 448.0, false, true};
constexpr Format kFloat8E5m2Format = {8, 3, -14, 57344.0, true, true};

// Null for integers.
const Format* format_of(Type type) {
  switch (type) {
    case Type::kHalf: return &kHalfFormat;
    case Type::kFloat: return &kFloatFormat;
    case Type::kBFloat16: return &kBFloat16Format;
    case Type::kDouble: return &kDoubleFormat;
    case Type::kFloat8Fnuz: return &kFloat8FnuzFormat;
    case Type::kBFloat8Fnuz: return &kBFloat8FnuzFormat;
    case Type::kFloat8E4m3fn: return &kFloat8E4m3fnFormat;
    case Type::kFloat8E5m2: return &kFloat8E5m2Format;
    default: return nullptr;
  }
}

// 2^e, for -1022 <= e <= 1023.
double power_of_two(int e) { return std::bit_cast<double>(static_cast<std::uint64_t>(e + 1023) << 52); }

// floor(log2 |value|) of a finite value; anything up to -1023 for zero and subnormals.
int exponent_of(double value) { return static_cast<int>(std::bit_cast<std::uint64_t>(value) >> 52 & 0x7ff) - 1023; }

int quantum_exponent(const Format& format, double value) {
  return std::max(exponent_of(value), format.min_exponent) - (format.precision - 1);
}

double round_to_integer(double value, Rounding rounding) {
  if (rounding == Rounding::kDown) return std::floor(value);
  if (rounding == Rounding::kUp) return std::ceil(value);
  return std::nearbyint(value);
}

double round_to_format(const Format& format, double value, Rounding rounding) {
  if (format.fnuz && value == 0) return 0;
  if (std::isnan(value) || value == 0 || format.bits == 64) return value;
  if (std::isinf(value) && format.fnuz) return std::numeric_limits<double>::quiet_NaN();
  if (std::isinf(value)) return format.saturate ? std::copysign(format.max, value) : value;
  const int e = quantum_exponent(format, value);
  const double rounded = round_to_integer(value * power_of_two(-e), rounding) * power_of_two(e);
  if (format.fnuz && rounded == 0) return 0;
  if (std::fabs(rounded) <= format.max) return std::copysign(rounded, value);
  const bool towards_zero = rounding == (value > 0 ? Rounding::kDown : Rounding::kUp);
  const bool finite = format.saturate || towards_zero;
  return std::copysign(finite ? format.max : std::numeric_limits<double>::infinity(), value);
}

double decode(const Format& format, std::uint32_t code) {
  const int fraction_bits = format.precision - 1;
  const int exponent_bits = format.bits - format.precision;
  const std::uint32_t top = (1u << exponent_bits) - 1;
  const std::uint32_t fraction = code & ((1u << fraction_bits) - 1);
  const std::uint32_t exponent = code >> fraction_bits & top;
  const double sign = code >> (format.bits - 1) ? -1.0 : 1.0;
  if (format.fnuz && code == 1u << (format.bits - 1)) return std::numeric_limits<double>::quiet_NaN();
  if (!format.fnuz && exponent == top && (format.infinity || fraction == (1u << fraction_bits) - 1)) {
    const bool is_infinity = format.infinity && fraction == 0;
    return is_infinity ? sign * std::numeric_limits<double>::infinity()
                       : std::copysign(std::numeric_limits<double>::quiet_NaN(), sign);
  }
  const std::uint32_t hidden = exponent == 0 ? 0 : 1u << fraction_bits;
  const int scale = format.min_exponent + (exponent == 0 ? 0 : static_cast<int>(exponent) - 1);
  return sign * (hidden | fraction) * power_of_two(scale - fraction_bits);
}

std::uint32_t encode(const Format& format, double value) {
  const int fraction_bits = format.precision - 1;
  const double rounded = round_to_format(format, value, Rounding::kNearest);
  if (format.fnuz && std::isnan(rounded)) return 1u << (format.bits - 1);
  const std::uint32_t sign = static_cast<std::uint32_t>(std::signbit(rounded)) << (format.bits - 1);
  const std::uint32_t top = ((1u << (format.bits - format.precision)) - 1) << fraction_bits;
  if (std::isnan(rounded)) {
    return sign | top | (format.infinity ? 1u << (fraction_bits - 1) : (1u << fraction_bits) - 1);
  }
  if (std::isinf(rounded)) return sign | top;
  const int e = quantum_exponent(format, rounded);
  // Counted from the smallest subnormal, codes of positive numbers are consecutive: the hidden bit
  // of a normal number carries into the exponent field.
  const auto significand = static_cast<std::uint32_t>(std::fabs(rounded) * power_of_two(-e));
  const auto binade = static_cast<std::uint32_t>(e + fraction_bits - format.min_exponent);
  return sign | ((binade << fraction_bits) + significand);
}

template <class Code>
const std::array<float, 1 << (8 * sizeof(Code))>& decode_table(const Format& format) {
  std::array<float, 1 << (8 * sizeof(Code))>* table = new std::remove_pointer_t<decltype(table)>;
  for (std::uint32_t code = 0; code < table->size(); ++code) {
    (*table)[code] = static_cast<float>(decode(format, code));
  }
  return *table;
}

double load_half(std::uint16_t code) {
  static const auto& table = decode_table<std::uint16_t>(kHalfFormat);
  return table[code];
}

template <const Format& kFormat>
double load_fp8(std::uint8_t code) {
  static const auto& table = decode_table<std::uint8_t>(kFormat);
  return table[code];
}

template <class T>
T saturate(double value) {
  if (std::isnan(value)) return 0;
  const double rounded = std::nearbyint(value);
  // The limits of int64 as doubles are -2^63 and 2^63, so the comparison must include equality.
  if (rounded >= static_cast<double>(std::numeric_limits<T>::max())) {
    return std::numeric_limits<T>::max();
  }
  if (rounded <= static_cast<double>(std::numeric_limits<T>::min())) {
    return std::numeric_limits<T>::min();
  }
  return static_cast<T>(rounded);
}

double clamp_integer(Type type, double value) {
  if (std::isnan(value)) return 0;
  const double max = max_finite(type);
  return std::fmin(std::fmax(value, -max - 1), max);
}

// Arrays may start at any address.
template <class T>
T element(const void* base, std::int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(base) + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <class T>
void put(void* base, std::int64_t index, T value) {
  std::memcpy(static_cast<char*>(base) + index * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

}  // namespace

std::optional<Type> type_from_number(int number) {
  const bool extension =
      number == static_cast<int>(Type::kFloat8E4m3fn) || number == static_cast<int>(Type::kFloat8E5m2);
  if (!extension && (number < 0 || number > 9 || number == 4)) return std::nullopt;
  return static_cast<Type>(number);
}

std::string_view type_name(Type type) {
  switch (type) {
    case Type::kHalf: return "half";
    case Type::kFloat: return "float";
    case Type::kInt32: return "int32";
    case Type::kInt8: return "int8";
    case Type::kBFloat16: return "bfloat16";
    case Type::kDouble: return "double";
    case Type::kFloat8Fnuz: return "float8_fnuz";
    case Type::kBFloat8Fnuz: return "bfloat8_fnuz";
    case Type::kInt64: return "int64";
    case Type::kFloat8E4m3fn: return "float8_e4m3fn";
    case Type::kFloat8E5m2: return "float8_e5m2";
  }
  return "invalid";
}

std::size_t size_of(Type type) {
  switch (type) {
    case Type::kInt8: return 1;
    case Type::kInt32: return 4;
    case Type::kInt64: return 8;
    default: return static_cast<std::size_t>(format_of(type)->bits) / 8;
  }
}

bool is_integer(Type type) { return format_of(type) == nullptr; }

bool is_fp8(Type type) { return !is_integer(type) && format_of(type)->bits == 8; }

unsigned char nan_byte(Type type) { return !is_integer(type) && format_of(type)->fnuz ? 0x80 : 0xff; }

double unit_roundoff(Type type) {
  const Format* format = format_of(type);
  return format ? power_of_two(-format->precision) : 0.5;
}

double max_finite(Type type) {
  switch (type) {
    case Type::kInt8: return 127;
    case Type::kInt32: return 2147483647;
    case Type::kInt64: return 0x1p63;
    default: return format_of(type)->max;
  }
}

double smallest_positive(Type type) {
  const Format* format = format_of(type);
  return format ? std::ldexp(1.0, format->min_exponent - (format->precision - 1)) : 1;
}

double spacing(Type type, double value) {
  const Format* format = format_of(type);
  if (!format) return 1;
  if (std::isnan(value)) return value;
  return std::ldexp(1.0, quantum_exponent(*format, std::fmin(std::fabs(value), format->max)));
}

double round_to(Type type, double value, Rounding rounding) {
  if (type == Type::kFloat && rounding == Rounding::kNearest) return static_cast<float>(value);
  const Format* format = format_of(type);
  if (format) return round_to_format(*format, value, rounding);
  return clamp_integer(type, round_to_integer(value, rounding));
}

double load(Type type, const void* base, std::int64_t index) {
  switch (type) {
    case Type::kHalf: return load_half(element<std::uint16_t>(base, index));
    case Type::kFloat: return element<float>(base, index);
    case Type::kInt32: return element<std::int32_t>(base, index);
    case Type::kInt8: return element<std::int8_t>(base, index);
    case Type::kBFloat16: {
      const std::uint32_t bits = element<std::uint16_t>(base, index);
      return std::bit_cast<float>(bits << 16);
    }
    case Type::kDouble: return element<double>(base, index);
    case Type::kFloat8Fnuz: return load_fp8<kFloat8FnuzFormat>(element<std::uint8_t>(base, index));
    case Type::kBFloat8Fnuz: return load_fp8<kBFloat8FnuzFormat>(element<std::uint8_t>(base, index));
    case Type::kInt64: return static_cast<double>(element<std::int64_t>(base, index));
    case Type::kFloat8E4m3fn: return load_fp8<kFloat8E4m3fnFormat>(element<std::uint8_t>(base, index));
    case Type::kFloat8E5m2: return load_fp8<kFloat8E5m2Format>(element<std::uint8_t>(base, index));
  }
  return 0;
}

void store(Type type, void* base, std::int64_t index, double value) {
  switch (type) {
    case Type::kFloat: return put(base, index, static_cast<float>(value));
    case Type::kDouble: return put(base, index, value);
    case Type::kInt8: return put(base, index, saturate<std::int8_t>(value));
    case Type::kInt32: return put(base, index, saturate<std::int32_t>(value));
    case Type::kInt64: return put(base, index, saturate<std::int64_t>(value));
    default: break;
  }
  const std::uint32_t code = encode(*format_of(type), value);
  if (size_of(type) == 2) return put(base, index, static_cast<std::uint16_t>(code));
  put(base, index, static_cast<std::uint8_t>(code));
}

}  // namespace polymio::reference
