// bfloat16: storage, conversions, and in C++ arithmetic that rounds each result.
// SPDX-License-Identifier: MIT
#ifndef HIP_INCLUDE_HIP_HIP_BFLOAT16_H
#define HIP_INCLUDE_HIP_HIP_BFLOAT16_H

#include <stdint.h>
#include <string.h>

/// The bits of the nearest bfloat16, ties to even.
static inline uint16_t polymio_hip_bfloat16_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);  // NaN
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float polymio_hip_bfloat16_value(uint16_t data) {
  const uint32_t bits = (uint32_t)data << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

#ifdef __cplusplus
struct hip_bfloat16 {
  uint16_t data;
  hip_bfloat16() = default;
  explicit hip_bfloat16(float value) : data(polymio_hip_bfloat16_bits(value)) {}
  operator float() const { return polymio_hip_bfloat16_value(data); }
  hip_bfloat16& operator=(float value) { return *this = hip_bfloat16(value); }
  hip_bfloat16& operator+=(hip_bfloat16 b) { return *this = hip_bfloat16(float(*this) + float(b)); }
  hip_bfloat16& operator-=(hip_bfloat16 b) { return *this = hip_bfloat16(float(*this) - float(b)); }
  hip_bfloat16& operator*=(hip_bfloat16 b) { return *this = hip_bfloat16(float(*this) * float(b)); }
  hip_bfloat16& operator/=(hip_bfloat16 b) { return *this = hip_bfloat16(float(*this) / float(b)); }
};
inline hip_bfloat16 operator+(hip_bfloat16 a, hip_bfloat16 b) { return a += b; }
inline hip_bfloat16 operator-(hip_bfloat16 a, hip_bfloat16 b) { return a -= b; }
inline hip_bfloat16 operator*(hip_bfloat16 a, hip_bfloat16 b) { return a *= b; }
inline hip_bfloat16 operator/(hip_bfloat16 a, hip_bfloat16 b) { return a /= b; }
#else
typedef struct hip_bfloat16 {
  uint16_t data;
} hip_bfloat16;
#endif

#endif  // HIP_INCLUDE_HIP_HIP_BFLOAT16_H
