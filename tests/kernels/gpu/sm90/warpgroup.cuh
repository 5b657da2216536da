// What the four warps of a warpgroup do together, on the emulated multiprocessor. Tests find this header before the one
// in src/.
// SPDX-License-Identifier: MIT
#pragma once
#include "base/dtype.h"
#include "kernels/gpu/sm90/barrier.cuh"
#include "kernels/gpu/sm90/operand.cuh"

namespace sm90 {

/// The product that the program's generated text has.
template <int kSums>
void multiply(float (&d)[kSums], u64 a, u64 b, int accumulate) {
  polymio::emulated::multiply(d, a, b, accumulate != 0);
}

// Products are complete when they return.
inline void begin_products() {}
inline void commit_products() {}
template <int kPending>
void wait_for_products() {}
template <int kRegisters>
void take_registers() {}
template <int kRegisters>
void give_registers() {}

inline void meet(int barrier, int threads) { polymio::emulated::meet(barrier, threads); }
inline void signal(int barrier, int threads) { polymio::emulated::signal(barrier, threads); }
inline bool elected() { return threadIdx.x % 32 == 0; }

inline void store_matrices(u32 shared, const u32 (&m)[4]) { polymio::emulated::store_matrices(shared, m, false); }
inline void store_matrices_transposed(u32 shared, const u32 (&m)[4]) {
  polymio::emulated::store_matrices(shared, m, true);
}
template <class T>
T load_shared(u32 address) {
  return polymio::emulated::read_shared<T>(address);
}

template <class T>
void store_shared(u32 address, T v) {
  std::memcpy(polymio::emulated::at_shared(address, sizeof v), &v, sizeof v);
}

inline u32 load_acquired(const u32* flag) { return *flag; }

template <class T>
struct Float16 {
  using Stored = std::uint16_t;
  using Pair = u32;
  static std::uint16_t bits(float v) {
    std::uint16_t u;
    polymio::dtype::store(
        std::is_same_v<T, polymio::dtype::Half> ? polymio::DataType::kHalf : polymio::DataType::kBFloat16, &u, 0, v);
    return u;
  }
  static u32 pack(float low, float high) { return bits(low) | u32(bits(high)) << 16; }
  static float low(u32 v) { return of(std::uint16_t(v)); }
  static float high(u32 v) { return of(std::uint16_t(v >> 16)); }
  static float of(std::uint16_t bits) { return polymio::dtype::to_float(T{bits}); }
};
using Half = Float16<polymio::dtype::Half>;
using Bfloat16 = Float16<polymio::dtype::BFloat16>;

struct Tf32 {
  using Stored = float;
  using Pair = float2;
  static float2 pack(float low, float high) { return {low, high}; }
  static float low(float2 v) { return v.x; }
  static float high(float2 v) { return v.y; }
  static float of(float v) { return v; }
};

inline u32 cluster_rank() { return polymio::emulated::cluster_rank(); }
inline void meet_cluster() { polymio::emulated::meet_cluster(); }
inline float4 load_of_block(u32 shared, u32 rank) { return polymio::emulated::read_shared_of<float4>(shared, rank); }

}  // namespace sm90
