// NVIDIA matrix units (mma.sync and ldmatrix, PTX ISA 9.7.14), per warp: 16-bit floats, TF32 products of fp32, int8,
// and from sm89 on 8-bit floats. ldmatrix loads blocks of 8 rows of 16 bytes from local memory: eight lanes per block
// each pass the address of a row.
// SPDX-License-Identifier: MIT
#pragma once

#ifdef IS_FLOAT8  // of vector.h
#define TAKES_FLOAT8 IS_FLOAT8(IN_KIND)
#else
#define TAKES_FLOAT8 0
#endif

#if IN_KIND == KIND_bf16
#define MMA_TYPE "bf16"
#else
#define MMA_TYPE "f16"
#endif
#define MMA_fp8_e4m3fn "e4m3"
#define MMA_fp8_e5m2 "e5m2"

/// c (16 x 8) += a (16 x 8) b (8 x 8).
INLINE void mma_16x8x8(const u32* a, u32 b, float* c) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32." MMA_TYPE "." MMA_TYPE
      ".f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(b));
}

/// d (16 x 8) = a (16 x 16) b (16 x 8) + c. Blocks of a: top left, bottom left, top right, bottom right.
INLINE void mma_16x8x16_to(const u32* a, const u32* b, const float* c, float* d) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32." MMA_TYPE "." MMA_TYPE
      ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}
INLINE void mma_16x8x16(const u32* a, const u32* b, float* c) { mma_16x8x16_to(a, b, c, c); }

#if IN_KIND == KIND_fp32
/// c (16 x 8) += a (16 x 8) b (8 x 8) of TF32; ignores the other bits of numbers.
INLINE void mma_tf32(const u32* a, const u32* b, float* c) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

INLINE u32 tf32_of_bits(u32 bits) {
  u32 rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(FLOAT_OF_BITS(bits)));
  return rounded;
}
#endif

#if IN_KIND == KIND_int8
typedef int product_t;
#else
typedef float product_t;
#endif

/// c (16 x 8) += a (16 x k) b (k x 8), where a row of k is 32 bytes. Blocks of 16 bytes of k, as load_4_blocks and
/// load_2_blocks fetch them; a: top left, bottom left, top right, bottom right. Rounds fp32 to TF32.
INLINE void multiply_blocks(const u32* a, const u32* b, product_t* c) {
#if IN_KIND == KIND_fp32
  const u32 rounded_a[4] = {tf32_of_bits(a[0]), tf32_of_bits(a[1]), tf32_of_bits(a[2]), tf32_of_bits(a[3])};
  const u32 rounded_b[2] = {tf32_of_bits(b[0]), tf32_of_bits(b[1])};
  mma_tf32(rounded_a, rounded_b, c);
#elif IN_KIND == KIND_int8
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#elif TAKES_FLOAT8
  float d[4];  // units may add with as few as 14 bits: their sums are of one instruction
  asm("mma.sync.aligned.m16n8k32.row.col.f32." PASTE(MMA_, IN) "." PASTE(MMA_, SECOND)
      ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %10, %10, %10};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(0.0f));
  UNROLL
  for (int i = 0; i < 4; ++i) c[i] += d[i];
#else
  mma_16x8x16(a, b, c);
#endif
}

/// Local memory address as the instructions take it.
INLINE u32 local_address(LOCAL const in_t* p) { return (u32)__cvta_generic_to_shared(p); }

INLINE void load_2_blocks(u32 smem, u32* v) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(v[0]), "=r"(v[1]) : "r"(smem));
}

INLINE void load_4_blocks(u32 smem, u32* v) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(smem));
}

/// The same with transposed blocks.
INLINE void load_2_transposed(u32 smem, u32* v) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(v[0]), "=r"(v[1]) : "r"(smem));
}

INLINE void load_4_transposed(u32 smem, u32* v) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(smem));
}
