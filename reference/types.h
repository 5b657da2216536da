// The element types of tensors and their exact conversion from and to double, written from the
// definitions of the formats. MIOpen's 8-bit floats are FNUZ formats: a NaN in the place of -0, no infinities. The
// OCP's are e4m3fn (no infinity, one NaN) and e5m2.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace polymio::reference {

// The numbers are those of miopenDataType_t and polymio.h.
enum class Type : int {
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

enum class Rounding { kNearest, kDown, kUp };  // nearest: ties to even

std::optional<Type> type_from_number(int number);  // none if the number is no type's
std::string_view type_name(Type type);             // "half", "float", ...
std::size_t size_of(Type type);                    // bytes
bool is_integer(Type type);
bool is_fp8(Type type);
// A byte which repeated is a NaN of a floating type and -1 of an integer type.
unsigned char nan_byte(Type type);

// Half the distance from 1 to the next number: 2^-24 for float. 0.5 for integers.
double unit_roundoff(Type type);
double max_finite(Type type);
double smallest_positive(Type type);  // the smallest subnormal; 1 for integers
// Distance between neighbours of the type around `value`; at powers of two, the larger one.
double spacing(Type type, double value);

// `value` as the type can hold it. Integers and the fp8 formats saturate, half, bfloat16 and float
// overflow to infinity; NaN stays NaN, or becomes 0 in an integer. An infinity becomes NaN in a FNUZ format.
double round_to(Type type, double value, Rounding rounding = Rounding::kNearest);

// Element `index` of an array. 64-bit integers beyond 2^53 lose their low bits.
double load(Type type, const void* base, std::int64_t index);
// Stores round_to(type, value).
void store(Type type, void* base, std::int64_t index, double value);

}  // namespace polymio::reference
