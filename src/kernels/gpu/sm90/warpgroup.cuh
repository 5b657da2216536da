// What the four warps of a warpgroup do together: matrix products (wgmma) of operands in shared memory, their ordering,
// registers, and barriers. The product itself, multiply(), is generated for the shape (kernels/gpu/wgmma.h).
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/float8.h"
#include "kernels/gpu/sm90/barrier.cuh"
#include "kernels/gpu/sm90/operand.cuh"

namespace sm90 {

/// Products begin after this: their operands and accumulators are ready.
DEVICE void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Until at most kPending groups of products are under way.
template <int kPending>
DEVICE void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

template <int kRegisters>
DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
DEVICE void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/// A barrier of `threads` threads; numbers 1 to 15 are free for use.
DEVICE void meet(int barrier, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory"); }
DEVICE void signal(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/// One thread of a converged warp.
DEVICE bool elected() {
  u32 chosen;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(chosen));
  return chosen != 0;
}

/// Stores four 8x8 matrices of 16-bit elements; lanes 8 i to 8 i + 7 give the addresses of the rows of matrix i.
DEVICE void store_matrices(u32 shared, const u32 (&m)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(m[0]), "r"(m[1]),
               "r"(m[2]), "r"(m[3])
               : "memory");
}
DEVICE void store_matrices_transposed(u32 shared, const u32 (&m)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(m[0]),
               "r"(m[1]), "r"(m[2]), "r"(m[3])
               : "memory");
}

DEVICE void store_shared(u32 address, unsigned short v) {
  asm volatile("st.shared.b16 [%0], %1;" ::"r"(address), "h"(v) : "memory");
}
DEVICE void store_shared(u32 address, u32 v) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}
DEVICE void store_shared(u32 address, uint2 v) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(address), "r"(v.x), "r"(v.y) : "memory");
}
DEVICE void store_shared(u32 address, uint4 v) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}
DEVICE void store_shared(u32 address, float v) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(v) : "memory");
}
DEVICE void store_shared(u32 address, float2 v) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(v.x), "f"(v.y) : "memory");
}

/// 2 to 16 bytes.
template <class T>
DEVICE T load_shared(u32 address);
template <>
DEVICE unsigned short load_shared(u32 address) {
  unsigned short v;
  asm volatile("ld.shared.b16 %0, [%1];" : "=h"(v) : "r"(address) : "memory");
  return v;
}
template <>
DEVICE u32 load_shared(u32 address) {
  u32 v;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}
template <>
DEVICE uint2 load_shared(u32 address) {
  uint2 v;
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address) : "memory");
  return v;
}
template <>
DEVICE float load_shared(u32 address) {
  float v;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(address) : "memory");
  return v;
}
template <>
DEVICE float2 load_shared(u32 address) {
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(address) : "memory");
  return v;
}
template <>
DEVICE float4 load_shared(u32 address) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
template <>
DEVICE uint4 load_shared(u32 address) {
  uint4 v;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

/// Another block's flag; what that block wrote before is visible if it is set.
DEVICE u32 load_acquired(const u32* flag) {
  u32 v;
  asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(v) : "l"(flag) : "memory");
  return v;
}

/// Elements of tensors, in pairs: floats of 16 bits, and fp32, whose products are of TF32. Others are only results.
struct Half : Operands<2> {
  using Stored = unsigned short;
  using Pair = u32;
  using Value = float;
  static DEVICE u32 pack(float low, float high) {
    u32 v;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(high), "f"(low));
    return v;
  }
  static DEVICE float low(u32 v) { return of((unsigned short)v); }
  static DEVICE float high(u32 v) { return of((unsigned short)(v >> 16)); }
  static DEVICE float of(unsigned short bits) {
    float v;
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits));
    return v;
  }
};
struct Bfloat16 : Operands<2> {
  using Stored = unsigned short;
  using Pair = u32;
  using Value = float;
  static DEVICE u32 pack(float low, float high) {
    u32 v;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(high), "f"(low));
    return v;
  }
  static DEVICE float low(u32 v) { return __uint_as_float(v << 16); }
  static DEVICE float high(u32 v) { return __uint_as_float(v & 0xffff0000u); }
  static DEVICE float of(unsigned short bits) { return __uint_as_float(u32(bits) << 16); }
};

struct Tf32 : Operands<4> {
  using Stored = float;
  using Pair = float2;
  using Value = float;
  template <class T>
  static DEVICE float2 pack(T low, T high) {
    return make_float2(float(low), float(high));
  }
  static DEVICE float low(float2 v) { return v.x; }
  static DEVICE float high(float2 v) { return v.y; }
  static DEVICE float of(float v) { return v; }
};

/// fp32 whose operands are three tensors of bf16 that add up to it.
struct SplitFloat : Float16<Tf32> {
  static constexpr int kParts = 3;
};

struct Int32 : Nearest {
  using Stored = int;
  using Pair = uint2;
  using Value = int;
  static DEVICE u32 bits(int v) { return u32(v); }
  static DEVICE u32 bits(double v) { return v == v ? u32(__double2int_rn(v)) : 0; }
  template <class T>
  static DEVICE uint2 pack(T low, T high) {
    return make_uint2(bits(low), bits(high));
  }
  static DEVICE int low(uint2 v) { return int(v.x); }
  static DEVICE int high(uint2 v) { return int(v.y); }
};

/// Results saturate.
struct Signed8 : Nearest {
  using Stored = signed char;
  using Pair = unsigned short;
  using Value = int;
  static DEVICE u32 bits(int v) { return u32(max(-128, min(127, v))) & 0xff; }
  static DEVICE u32 bits(double v) { return bits(int(Int32::bits(v))); }
  template <class T>
  static DEVICE Pair pack(T low, T high) {
    return Pair(bits(low) | bits(high) << 8);
  }
  static DEVICE int low(Pair v) { return (signed char)v; }
  static DEVICE int high(Pair v) { return (signed char)(v >> 8); }
};

/// The formats of float8.h. kDither: rounded stochastically.
template <int kExponent, bool kFnuz, bool kDither>
struct Result8 {
  static constexpr bool kDithers = kDither;
  using Stored = unsigned char;
  using Pair = unsigned short;
  using Value = float;
  static DEVICE Pair pack(float low, float high) {
    if constexpr (kFnuz) return Pair(fp8_of_float(low, kExponent, 1) | fp8_of_float(high, kExponent, 1) << 8);
    Pair v;
    if constexpr (kExponent == 5)
      asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(v) : "f"(high), "f"(low));
    else
      asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(v) : "f"(high), "f"(low));
    return v;
  }
  /// Of neighbouring elements, the first of which has this offset.
  static DEVICE Pair pack(float low, float high, u64 seed, i64 place) {
    const u32 first = fp8_of_float_dithered(low, kExponent, kFnuz, dither_of(seed, u64(place)));
    return Pair(first | fp8_of_float_dithered(high, kExponent, kFnuz, dither_of(seed, u64(place + 1))) << 8);
  }
  static DEVICE float low(Pair v) { return float_of_fp8(v & 0xffu, kExponent, kFnuz); }
  static DEVICE float high(Pair v) { return float_of_fp8(v >> 8, kExponent, kFnuz); }
};

/// Sums as bits.
DEVICE u32 bits_of(float v) { return __float_as_uint(v); }
DEVICE u32 bits_of(int v) { return u32(v); }
template <class Sum>
DEVICE Sum sum_of(u32 bits);
template <>
DEVICE float sum_of(u32 bits) {
  return __uint_as_float(bits);
}
template <>
DEVICE int sum_of(u32 bits) {
  return int(bits);
}

/// Blocks of a cluster.
DEVICE u32 cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
/// All threads of the cluster; their writes to shared memory become visible to each other.
DEVICE void meet_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
/// Reads shared memory of block `rank` of the cluster, at the address of this block's own.
DEVICE uint4 load_of_block(u32 shared, u32 rank) {
  uint4 v;
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %4, %5;\n"
      "ld.shared::cluster.v4.b32 {%0, %1, %2, %3}, [there];\n"
      "}"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "r"(shared), "r"(rank)
      : "memory");
  return v;
}

}  // namespace sm90
