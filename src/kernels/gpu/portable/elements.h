// Elements of every data type in memory and in the arithmetic of -DNUM: float, double (with -DFP64), exact (128-bit
// integers, which hold every product of two elements) or bits (copies). A type is its number in the C API (fp8 and bfp8
// are MIOpen's float8 and bfloat8), a compile-time constant wherever it is a parameter.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/float8.h"

#define TYPE_fp16 0
#define TYPE_fp32 1
#define TYPE_int32 2
#define TYPE_int8 3
#define TYPE_bf16 5
#define TYPE_fp64 6
#define TYPE_fp8 7
#define TYPE_bfp8 8
#define TYPE_int64 9
#define TYPE_fp8_e4m3fn 0x100
#define TYPE_fp8_e5m2 0x101
#define TYPE(name) PASTE(TYPE_, name)
#define SIZE_OF(t)                             \
  ((t) == TYPE_fp64 || (t) == TYPE_int64   ? 8 \
   : (t) == TYPE_fp32 || (t) == TYPE_int32 ? 4 \
   : (t) == TYPE_fp16 || (t) == TYPE_bf16  ? 2 \
                                           : 1)
#define IN_TYPE TYPE(IN)
#define OUT_TYPE TYPE(OUT)

#define NUMBERS_float 1
#define NUMBERS_double 2
#define NUMBERS_exact 3
#define NUMBERS_bits 4
#define NUMBERS PASTE(NUMBERS_, NUM)

// Elements per vector: 16 bytes of the smaller type, at most 8 for the sake of registers.
#define MIN_SIZE MIN(SIZE_OF(IN_TYPE), SIZE_OF(OUT_TYPE))
#ifndef VECTOR
#define VECTOR MIN(16 / MIN_SIZE, 8)
#endif

INLINE float float_of(const int type, u64 bits) {
  switch (type) {
    case TYPE_fp16: return float_of_half((u16)bits);
    case TYPE_bf16: return FLOAT_OF_BITS((u32)bits << 16);
    case TYPE_int8: return (float)(i8)bits;
    case TYPE_fp8: return float_of_fp8((u32)bits, 4, 1);
    case TYPE_bfp8: return float_of_fp8((u32)bits, 5, 1);
    case TYPE_fp8_e4m3fn: return float_of_fp8((u32)bits, 4, 0);
    case TYPE_fp8_e5m2: return float_of_fp8((u32)bits, 5, 0);
    default: return FLOAT_OF_BITS((u32)bits);
  }
}

INLINE u64 bits_of_float(const int type, float v) {
  switch (type) {
    case TYPE_fp16: return half_of_float(v);
    case TYPE_bf16: return bf16_of_float(v);
    case TYPE_int8: return (u8)(i8)(v != v ? 0.0f : v < -128.0f ? -128.0f : v > 127.0f ? 127.0f : (float)ROUND(v));
    case TYPE_fp8: return fp8_of_float(v, 4, 1);
    case TYPE_bfp8: return fp8_of_float(v, 5, 1);
    case TYPE_fp8_e4m3fn: return fp8_of_float(v, 4, 0);
    case TYPE_fp8_e5m2: return fp8_of_float(v, 5, 0);
    default: return BITS_OF_FLOAT(v);
  }
}

#ifdef FP64
INLINE double double_of(const int type, u64 bits) {
  switch (type) {
    case TYPE_fp64: return DOUBLE_OF_BITS(bits);
    case TYPE_int32: return (double)(int)bits;
    case TYPE_int64: return (double)(i64)bits;
    default: return (double)float_of(type, bits);
  }
}

INLINE u64 bits_of_double(const int type, double v) {
  const double r = ROUND(v);
  switch (type) {
    case TYPE_fp64: return BITS_OF_DOUBLE(v);
    case TYPE_fp32: return BITS_OF_FLOAT((float)v);
    case TYPE_int8: return (u8)(i8)(v != v ? 0 : r < -128.0 ? -128 : r > 127.0 ? 127 : (int)r);
    case TYPE_int32:
      return (u32)(v != v ? 0 : r <= -2147483648.0 ? -2147483647 - 1 : r >= 2147483647.0 ? 2147483647 : (int)r);
    case TYPE_int64:
      return v != v                        ? 0
             : r <= -9223372036854775808.0 ? (u64)1 << 63
             : r >= 9223372036854775808.0  ? ((u64)1 << 63) - 1
                                           : (u64)(i64)r;
    default: return bits_of_float(type, round_to_odd(v));
  }
}
#define REAL_OF(type, bits) double_of(type, bits)
#define BITS_OF_REAL(type, v) bits_of_double(type, v)
#else
#define REAL_OF(type, bits) float_of(type, bits)
#define BITS_OF_REAL(type, v) bits_of_float(type, v)
#endif

#if NUMBERS == NUMBERS_exact
typedef struct {
  u64 low;
  i64 high;
} num;
typedef i64 scalar;

INLINE num num_of(scalar v) {
  num n = {(u64)v, v < 0 ? -1 : 0};
  return n;
}
INLINE num plus(num a, num b) {
  num n;
  n.low = a.low + b.low;
  n.high = (i64)((u64)a.high + (u64)b.high + (n.low < a.low ? 1 : 0));
  return n;
}
INLINE num times(num a, num b) {
  const u64 mask = 0xffffffffu, a0 = a.low & mask, a1 = a.low >> 32, b0 = b.low & mask, b1 = b.low >> 32;
  const u64 p = a0 * b0, q = a0 * b1, r = a1 * b0, middle = (p >> 32) + (q & mask) + (r & mask);
  const u64 cross = a.low * (u64)b.high + (u64)a.high * b.low;
  num n;
  n.low = (p & mask) | middle << 32;
  n.high = (i64)(a1 * b1 + (q >> 32) + (r >> 32) + (middle >> 32) + cross);
  return n;
}
INLINE int below(num a, num b) { return a.high < b.high || (a.high == b.high && a.low < b.low); }
INLINE num decode(const int type, u64 bits) {
  return num_of(type == TYPE_int8 ? (i64)(i8)bits : type == TYPE_int32 ? (i64)(int)bits : (i64)bits);
}
INLINE u64 encode(const int type, num v) {
  const int width = 8 * SIZE_OF(type);
  const i64 max_value = (i64)(((u64)1 << (width - 1)) - 1);
  if (below(num_of(max_value), v)) return (u64)max_value;
  if (below(v, num_of(-max_value - 1))) return (u64)(-max_value - 1);
  return v.low;
}
/// alpha * v + beta * old; beta 0 does not use old.
INLINE num blend(scalar alpha, num v, scalar beta, num old) {
  const num scaled = times(num_of(alpha), v);
  return beta != 0 ? plus(scaled, times(num_of(beta), old)) : scaled;
}
INLINE real real_of(num v) {
  if (v.high == (v.low >> 63 ? -1 : 0)) return (real)(i64)v.low;
  return (real)v.high * (real)18446744073709551616.0f + (real)v.low;
}

#elif NUMBERS == NUMBERS_bits
typedef u64 num;
typedef u64 scalar;
INLINE num num_of(scalar v) { return v; }
INLINE num decode(const int type, u64 bits) { return bits; }
INLINE u64 encode(const int type, num v) { return v; }

#else
typedef NUM num;
typedef NUM scalar;
INLINE num num_of(scalar v) { return v; }
INLINE num plus(num a, num b) { return a + b; }
INLINE num times(num a, num b) { return a * b; }
INLINE int below(num a, num b) { return a < b; }
INLINE num blend(scalar alpha, num v, scalar beta, num old) { return beta != 0 ? alpha * v + beta * old : alpha * v; }
INLINE real real_of(num v) { return (real)v; }
#if NUMBERS == NUMBERS_double
INLINE num decode(const int type, u64 bits) { return double_of(type, bits); }
INLINE u64 encode(const int type, num v) { return bits_of_double(type, v); }
#else
INLINE num decode(const int type, u64 bits) { return float_of(type, bits); }
INLINE u64 encode(const int type, num v) { return bits_of_float(type, v); }
#endif
#endif

INLINE u64 load_bits(GLOBAL const u8* p, const int size, i64 i) {
  return size == 1   ? p[i]
         : size == 2 ? ((GLOBAL const u16*)p)[i]
         : size == 4 ? ((GLOBAL const u32*)p)[i]
                     : ((GLOBAL const u64*)p)[i];
}
INLINE void store_bits(GLOBAL u8* p, const int size, i64 i, u64 bits) {
  if (size == 1) p[i] = (u8)bits;
  if (size == 2) ((GLOBAL u16*)p)[i] = (u16)bits;
  if (size == 4) ((GLOBAL u32*)p)[i] = (u32)bits;
  if (size == 8) ((GLOBAL u64*)p)[i] = bits;
}

/// `packed` 32-bit units in accesses of up to 16 bytes; the address is a multiple of the access size.
INLINE void load_u32s(GLOBAL const u8* p, const int packed, u32* w) {
  if (packed == 1) w[0] = *(GLOBAL const u32*)p;
  if (packed == 2) {
    const u64 u = *(GLOBAL const u64*)p;
    w[0] = (u32)u;
    w[1] = (u32)(u >> 32);
  }
  UNROLL
  for (int i = 0; i < packed / 4; ++i) {
    const u32x4 u = ((GLOBAL const u32x4*)p)[i];
    w[4 * i] = u.x;
    w[4 * i + 1] = u.y;
    w[4 * i + 2] = u.z;
    w[4 * i + 3] = u.w;
  }
}
INLINE void store_u32s(GLOBAL u8* p, const int packed, const u32* w) {
  if (packed == 1) *(GLOBAL u32*)p = w[0];
  if (packed == 2) *(GLOBAL u64*)p = (u64)w[0] | (u64)w[1] << 32;
  UNROLL
  for (int i = 0; i < packed / 4; ++i) {
    u32x4 u;
    u.x = w[4 * i];
    u.y = w[4 * i + 1];
    u.z = w[4 * i + 2];
    u.w = w[4 * i + 3];
    ((GLOBAL u32x4*)p)[i] = u;
  }
}

/// Element i of packed 32-bit units. pack_bits requires that the units begin as zeros.
INLINE u64 unpack_bits(const u32* w, const int size, int i) {
  return size == 8   ? (u64)w[2 * i] | (u64)w[2 * i + 1] << 32
         : size == 4 ? w[i]
         : size == 2 ? (w[i / 2] >> (i % 2 * 16)) & 0xffffu
                     : (w[i / 4] >> (i % 4 * 8)) & 0xffu;
}
INLINE void pack_bits(u32* w, const int size, int i, u64 bits) {
  if (size == 8) {
    w[2 * i] = (u32)bits;
    w[2 * i + 1] = (u32)(bits >> 32);
  }
  if (size == 4) w[i] = (u32)bits;
  if (size == 2) w[i / 2] |= ((u32)bits & 0xffffu) << (i % 2 * 16);
  if (size == 1) w[i / 4] |= ((u32)bits & 0xffu) << (i % 4 * 8);
}

/// The first `n` of `unit` elements, `step` apart.
INLINE void read_elements(GLOBAL const u8* p, const int type, i64 at, i64 step, const int unit, int n, num* v) {
  UNROLL
  for (int i = 0; i < unit; ++i)
    if (i < n) v[i] = decode(type, load_bits(p, SIZE_OF(type), at + i * step));
}

/// The same; contiguous full units are aligned to their bytes, at most 16.
INLINE void read_unit(GLOBAL const u8* p, const int type, i64 at, i64 step, const int unit, int n, num* v) {
  const int size = SIZE_OF(type);
  if (unit > 1 && step == 1 && n == unit) {
    u32 packed[16];
    load_u32s(p + at * size, unit * size / 4, packed);
    UNROLL
    for (int i = 0; i < unit; ++i) v[i] = decode(type, unpack_bits(packed, size, i));
  } else if (unit > 1 && step == 0) {
    const num value = decode(type, load_bits(p, size, at));
    UNROLL
    for (int i = 0; i < unit; ++i) v[i] = value;
  } else {
    read_elements(p, type, at, step, unit, n, v);
  }
}
/// A unit as it is in memory, of which unpack_bits() takes elements; read as by read_unit().
INLINE void read_packed(GLOBAL const u8* p, const int type, i64 at, i64 step, const int unit, int n, u32* packed) {
  const int size = SIZE_OF(type);
  if (unit > 1 && step == 1 && n == unit) {
    load_u32s(p + at * size, unit * size / 4, packed);
    return;
  }
  UNROLL
  for (int i = 0; i < MAX(unit * size / 4, 1); ++i) packed[i] = 0;
  UNROLL
  for (int i = 0; i < unit; ++i)
    if (i < n) pack_bits(packed, size, i, load_bits(p, size, at + i * step));
}
INLINE void write_unit(GLOBAL u8* p, const int type, i64 at, i64 step, const int unit, int n, const num* v) {
  const int size = SIZE_OF(type);
  if (unit > 1 && step == 1 && n == unit) {
    u32 packed[16];
    UNROLL
    for (int i = 0; i < 16; ++i) packed[i] = 0;
    UNROLL
    for (int i = 0; i < unit; ++i) pack_bits(packed, size, i, encode(type, v[i]));
    store_u32s(p + at * size, unit * size / 4, packed);
  } else {
    UNROLL
    for (int i = 0; i < unit; ++i)
      if (i < n) store_bits(p, size, at + i * step, encode(type, v[i]));
  }
}
