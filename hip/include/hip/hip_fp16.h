// Half precision: storage, conversions, and in C++ arithmetic that rounds each result.
// SPDX-License-Identifier: MIT
#ifndef HIP_INCLUDE_HIP_HIP_FP16_H
#define HIP_INCLUDE_HIP_HIP_FP16_H

#include <stdint.h>
#include <string.h>

typedef struct __half_raw {
  unsigned short x;
} __half_raw;

/// The bits of the nearest half, ties to even.
static inline unsigned short polymio_hip_half_bits(float value) {
  uint32_t bits, sign, magnitude;
  memcpy(&bits, &value, sizeof bits);
  sign = bits >> 16 & 0x8000;
  magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return (unsigned short)(sign | 0x7e00);   // NaN
  if (magnitude >= 0x477ff000) return (unsigned short)(sign | 0x7c00);  // rounds to infinity
  if (magnitude < 0x38800000) {                                         // below 2^-14: a multiple of 2^-24
    float scaled;
    uint32_t small;
    memcpy(&scaled, &magnitude, sizeof scaled);
    scaled += 0.5f;  // whose last bit is worth 2^-24
    memcpy(&small, &scaled, sizeof small);
    return (unsigned short)(sign | (small - 0x3f000000));
  }
  magnitude += 0xfff + (magnitude >> 13 & 1);
  return (unsigned short)(sign | ((magnitude - 0x38000000) >> 13));
}

static inline float polymio_hip_half_value(unsigned short half) {
  const uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7fff;
  uint32_t bits;
  float value;
  if (magnitude < 0x400) {  // subnormal: a multiple of 2^-24
    value = (float)magnitude * 5.9604644775390625e-8f;
    memcpy(&bits, &value, sizeof bits);
  } else {
    bits = (magnitude << 13) + (magnitude >= 0x7c00 ? 0x70000000 : 0x38000000);
  }
  bits |= sign;
  memcpy(&value, &bits, sizeof value);
  return value;
}

#ifdef __cplusplus
struct __half {
  unsigned short __x;
  __half() = default;
  __half(float value) : __x(polymio_hip_half_bits(value)) {}
  __half(double value) : __x(polymio_hip_half_bits(static_cast<float>(value))) {}
  __half(int value) : __x(polymio_hip_half_bits(static_cast<float>(value))) {}
  __half(__half_raw raw) : __x(raw.x) {}
  operator float() const { return polymio_hip_half_value(__x); }
  operator __half_raw() const { return __half_raw{__x}; }
  __half& operator+=(__half b) { return *this = __half(float(*this) + float(b)); }
  __half& operator-=(__half b) { return *this = __half(float(*this) - float(b)); }
  __half& operator*=(__half b) { return *this = __half(float(*this) * float(b)); }
  __half& operator/=(__half b) { return *this = __half(float(*this) / float(b)); }
};
inline __half operator+(__half a, __half b) { return a += b; }
inline __half operator-(__half a, __half b) { return a -= b; }
inline __half operator*(__half a, __half b) { return a *= b; }
inline __half operator/(__half a, __half b) { return a /= b; }
inline __half operator-(__half a) { return __half(-float(a)); }

struct __half2 {
  __half x, y;
};
inline __half __float2half(float value) { return __half(value); }
inline __half __float2half_rn(float value) { return __half(value); }
inline float __half2float(__half value) { return value; }
inline unsigned short __half_as_ushort(__half value) { return value.__x; }
inline __half __ushort_as_half(unsigned short bits) { return __half(__half_raw{bits}); }
#else
typedef struct __half {
  unsigned short __x;
} __half;
typedef struct __half2 {
  __half x, y;
} __half2;
static inline __half __float2half(float value) {
  __half made = {polymio_hip_half_bits(value)};
  return made;
}
static inline float __half2float(__half value) { return polymio_hip_half_value(value.__x); }
#endif

typedef __half half;
typedef __half2 half2;

#endif  // HIP_INCLUDE_HIP_HIP_FP16_H
