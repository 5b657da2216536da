// Vector loads and stores of elements of types IN and OUT, which registers hold as sum_t: int32 for int8 (whose OUT is
// int32 where vectors are stored), fp32 for others. SECOND is the type of a second input, IN where not given. With
// CODES (register_copy.h) inputs are 8-bit floats that become IN.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/conv_shapes.h"

#define KIND_fp32 1
#define KIND_fp16 2
#define KIND_bf16 3
#define KIND_int8 4
#define KIND_int32 5
#define KIND_fp8_e4m3fn 6
#define KIND_fp8_e5m2 7
#define KIND_fp8 8
#define KIND_bfp8 9
#define IS_FLOAT8(kind) ((kind) >= KIND_fp8_e4m3fn)
#define KIND_OF(type) PASTE(KIND_, type)
#define IN_KIND KIND_OF(IN)
#define OUT_KIND KIND_OF(OUT)
#ifndef SECOND
#define SECOND IN
#endif
#if IS_FLOAT8(IN_KIND) || IS_FLOAT8(OUT_KIND) || defined(CODES)
#include "kernels/gpu/portable/float8.h"
#endif

typedef STORED(IN) in_t;
typedef STORED(OUT) out_t;
#if IN_KIND == KIND_int8
typedef int sum_t;
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#define SUM_OF_BITS(u) ((int)(u))
#define BITS_OF_SUM(v) ((u32)(v))
#else
typedef float sum_t;
#define MULTIPLY_ADD(a, b, c) FMA(a, b, c)
#define SUM_OF_BITS(u) FLOAT_OF_BITS(u)
#define BITS_OF_SUM(v) BITS_OF_FLOAT(v)
#endif

#if IN_KIND == KIND_fp16
#define NARROW(u) float_of_half((u16)(u))
#elif IN_KIND == KIND_bf16
#define NARROW(u) FLOAT_OF_BITS((u32)(u16)(u) << 16)
#elif IS_FLOAT8(IN_KIND)
#define NARROW(u) PASTE(number_, IN)((u32)(u)&0xffu)
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && (OUT_KIND == KIND_fp16 || OUT_KIND == KIND_bf16)
INLINE u32 pair_of_floats(float low, float high) {
  u32 bits;
#if OUT_KIND == KIND_fp16
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
#else
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
#endif
  return bits;
}
#define PAIR(a, b) pair_of_floats(a, b)
#elif OUT_KIND == KIND_fp16
#define PAIR(a, b) ((u32)half_of_float(a) | (u32)half_of_float(b) << 16)
#elif OUT_KIND == KIND_bf16
#define PAIR(a, b) ((u32)bf16_of_float(a) | (u32)bf16_of_float(b) << 16)
#endif

/// Elements per 16 bytes.
#if IN_KIND == KIND_fp32
#define VECTOR 4
#elif IN_KIND == KIND_int8 || IS_FLOAT8(IN_KIND)
#define VECTOR 16
#else
#define VECTOR 8
#endif

/// Four elements, aligned to their bytes; with UNALIGNED at any address.
INLINE void load4(GLOBAL const in_t* p, sum_t* v) {
#ifdef UNALIGNED
  UNROLL
  for (int i = 0; i < 4; ++i) v[i] = LOAD(IN, p, i);
#elif IN_KIND == KIND_fp32
  const u32x4 u = *(GLOBAL const u32x4*)p;
  v[0] = FLOAT_OF_BITS(u.x);
  v[1] = FLOAT_OF_BITS(u.y);
  v[2] = FLOAT_OF_BITS(u.z);
  v[3] = FLOAT_OF_BITS(u.w);
#elif IN_KIND == KIND_int8
  const u32 u = *(GLOBAL const u32*)p;
  v[0] = (i8)u;
  v[1] = (i8)(u >> 8);
  v[2] = (i8)(u >> 16);
  v[3] = (i8)(u >> 24);
#elif IS_FLOAT8(IN_KIND)
  const u32 u = *(GLOBAL const u32*)p;
  v[0] = NARROW(u);
  v[1] = NARROW(u >> 8);
  v[2] = NARROW(u >> 16);
  v[3] = NARROW(u >> 24);
#else
  const u64 u = *(GLOBAL const u64*)p;
  v[0] = NARROW(u);
  v[1] = NARROW(u >> 16);
  v[2] = NARROW(u >> 32);
  v[3] = NARROW(u >> 48);
#endif
}

INLINE void store4(GLOBAL out_t* p, const sum_t* v) {
#if defined(UNALIGNED) && OUT_KIND == KIND_int32
  UNROLL
  for (int i = 0; i < 4; ++i) p[i] = v[i];
#elif defined(UNALIGNED) || OUT_KIND == KIND_int8 || IS_FLOAT8(OUT_KIND)
  UNROLL
  for (int i = 0; i < 4; ++i) STORE(OUT, p, i, v[i]);
#elif OUT_KIND == KIND_fp32 || OUT_KIND == KIND_int32
  u32x4 u;
  u.x = BITS_OF_SUM(v[0]);
  u.y = BITS_OF_SUM(v[1]);
  u.z = BITS_OF_SUM(v[2]);
  u.w = BITS_OF_SUM(v[3]);
  *(GLOBAL u32x4*)p = u;
#else
  *(GLOBAL u64*)p = (u64)PAIR(v[0], v[1]) | (u64)PAIR(v[2], v[3]) << 32;
#endif
}

#if OUT_KIND == KIND_fp32 || OUT_KIND == KIND_fp16 || OUT_KIND == KIND_bf16
/// Two elements, aligned to their bytes; with UNALIGNED at any address.
INLINE void store2(GLOBAL out_t* p, const sum_t* v) {
#if defined(UNALIGNED)
  STORE(OUT, p, 0, v[0]);
  STORE(OUT, p, 1, v[1]);
#elif OUT_KIND == KIND_fp32
  *(GLOBAL u64*)p = (u64)BITS_OF_SUM(v[0]) | (u64)BITS_OF_SUM(v[1]) << 32;
#else
  *(GLOBAL u32*)p = PAIR(v[0], v[1]);
#endif
}
#endif

/// VECTOR elements, aligned to 16 bytes; with UNALIGNED at any address.
INLINE void load_vector(GLOBAL const in_t* p, sum_t* v) {
#if (IN_KIND == KIND_fp16 || IN_KIND == KIND_bf16) && !defined(UNALIGNED)
  const u32x4 u = *(GLOBAL const u32x4*)p;
  v[0] = NARROW(u.x);
  v[1] = NARROW(u.x >> 16);
  v[2] = NARROW(u.y);
  v[3] = NARROW(u.y >> 16);
  v[4] = NARROW(u.z);
  v[5] = NARROW(u.z >> 16);
  v[6] = NARROW(u.w);
  v[7] = NARROW(u.w >> 16);
#else
  UNROLL
  for (int i = 0; i < VECTOR; i += 4) load4(p + i, v + i);
#endif
}

INLINE void store_vector(GLOBAL out_t* p, const sum_t* v) {
#if (OUT_KIND == KIND_fp16 || OUT_KIND == KIND_bf16) && !defined(UNALIGNED)
  u32x4 u;
  u.x = PAIR(v[0], v[1]);
  u.y = PAIR(v[2], v[3]);
  u.z = PAIR(v[4], v[5]);
  u.w = PAIR(v[6], v[7]);
  *(GLOBAL u32x4*)p = u;
#else
  UNROLL
  for (int i = 0; i < VECTOR; i += 4) store4(p + i, v + i);
#endif
}

/// Four sums from local memory in one access, aligned to 16 bytes.
INLINE void local_load4(LOCAL const sum_t* p, sum_t* v) {
  const u32x4 u = *(LOCAL const u32x4*)p;
  v[0] = SUM_OF_BITS(u.x);
  v[1] = SUM_OF_BITS(u.y);
  v[2] = SUM_OF_BITS(u.z);
  v[3] = SUM_OF_BITS(u.w);
}

/// p rounded up to a multiple of 16 bytes: the workspace has any alignment.
INLINE GLOBAL const sum_t* align16(GLOBAL const sum_t* p) { return p + ((0 - ((u64)p >> 2)) & 3); }

/// *p = alpha * v + beta * *p; beta 0 does not read *p. Integers are stored unscaled.
INLINE void store_scaled(GLOBAL out_t* p, sum_t v, float alpha, float beta) {
#if OUT_KIND == KIND_int32
  *p = v;
#else
  v *= alpha;
  if (beta != 0) v = FMA(beta, LOAD(OUT, p, 0), v);
  STORE(OUT, p, 0, v);
#endif
}

INLINE void store4_scaled(GLOBAL out_t* p, const sum_t* v, float alpha, float beta) {
#if OUT_KIND == KIND_int32
  store4(p, v);
#else
  sum_t scaled[4];
  UNROLL
  for (int i = 0; i < 4; ++i) {
    scaled[i] = v[i] * alpha;
    if (beta != 0) scaled[i] = FMA(beta, LOAD(OUT, p, i), scaled[i]);
  }
  store4(p, scaled);
#endif
}
