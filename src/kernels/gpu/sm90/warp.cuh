// What the threads of a warp do together on matrix units of sm80 and later (ldmatrix and mma.sync, PTX ISA 9.7.14).
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/sm90/warpgroup.cuh"

namespace sm90 {

/// Four 8x8 matrices of 16-bit elements; eight lanes for each pass the addresses of its rows. A lane gets two elements
/// of row lane / 4.
DEVICE void load_matrices(u32 shared, u32 (&m)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(shared)
               : "memory");
}
/// The same, of the transposed matrices.
DEVICE void load_matrices_transposed(u32 shared, u32 (&m)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(shared)
               : "memory");
}

/// d (16 x 8) += a (16 x k) * b (k x 8), where k elements have 32 bytes. Quarters of a: top left, bottom left, top
/// right, bottom right; halves of b: top, bottom. A lane has 4 bytes of each: of row lane / 4 of a, column lane / 4 of
/// b.
template <class Element>
DEVICE void multiply_by_warp(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]);
template <>
DEVICE void multiply_by_warp<Half>(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <>
DEVICE void multiply_by_warp<Bfloat16>(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <>
DEVICE void multiply_by_warp<Tf32>(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// The same for k of 16 bytes: halves of a, top and bottom; b.
template <class Element>
DEVICE void multiply_by_warp(float (&d)[4], const u32 (&a)[2], u32 b);
template <>
DEVICE void multiply_by_warp<Half>(float (&d)[4], const u32 (&a)[2], u32 b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(b));
}
template <>
DEVICE void multiply_by_warp<Bfloat16>(float (&d)[4], const u32 (&a)[2], u32 b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(b));
}

}  // namespace sm90
