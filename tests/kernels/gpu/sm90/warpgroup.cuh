// What the four warps of a warpgroup do together, on the emulated multiprocessor. Tests find this header before the one
// in src/.
// SPDX-License-Identifier: MIT
#pragma once
#include "base/dtype.h"
#include "primitives/convolution/definition.h"
#include "kernels/gpu/sm90/barrier.cuh"
#include "kernels/gpu/sm90/operand.cuh"

namespace sm90 {

/// The products that the program's generated text has.
template <class Sum, int kSums>
void multiply(Sum (&d)[kSums], u64 a, u64 b, int accumulate) {
  float sums[kSums];
  for (int i = 0; i < kSums; ++i) sums[i] = accumulate ? static_cast<float>(d[i]) : 0;
  polymio::emulated::multiply(sums, a, b, accumulate != 0);
  for (int i = 0; i < kSums; ++i) d[i] = static_cast<Sum>(sums[i]);
}
template <int kSums>
void multiply(float (&d)[kSums], const u32 (&a)[4], u64 b, int accumulate) {
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
struct Element16 : Operands<2> {
  using Stored = std::uint16_t;
  using Pair = u32;
  using Value = float;
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
using Half = Element16<polymio::dtype::Half>;
using Bfloat16 = Element16<polymio::dtype::BFloat16>;

struct Tf32 : Operands<4> {
  using Stored = float;
  using Pair = float2;
  using Value = float;
  template <class T>
  static float2 pack(T low, T high) {
    return {static_cast<float>(low), static_cast<float>(high)};
  }
  static float low(float2 v) { return v.x; }
  static float high(float2 v) { return v.y; }
  static float of(float v) { return v; }
};

struct SplitFloat : Float16<Tf32> {
  static constexpr int kParts = 3;
};

template <polymio::DataType kType>
std::uint32_t rounded(double v) {
  std::uint32_t bits = 0;
  polymio::dtype::store(kType, &bits, 0, v);
  return bits;
}

struct Int32 : Nearest {
  using Stored = int;
  using Pair = uint2;
  using Value = int;
  static uint2 pack(double low, double high) {
    return {rounded<polymio::DataType::kInt32>(low), rounded<polymio::DataType::kInt32>(high)};
  }
  static int low(uint2 v) { return static_cast<int>(v.x); }
  static int high(uint2 v) { return static_cast<int>(v.y); }
};

/// Results of 8 bits.
template <polymio::DataType kType, class V, bool kDither = false>
struct Bytes {
  static constexpr bool kDithers = kDither;
  using Stored = std::uint8_t;
  using Pair = std::uint16_t;
  using Value = V;
  static Pair pack(double low, double high) {
    return static_cast<Pair>(rounded<kType>(low) | rounded<kType>(high) << 8);
  }
  static Pair pack(double low, double high, u64 seed, std::int64_t place) {
    Pair pair = 0;
    for (int i = 0; i < 2; ++i)
      polymio::dtype::store(kType, &pair, i, i == 0 ? low : high,
                            polymio::convolution::dither(seed, static_cast<std::uint64_t>(place + i)));
    return pair;
  }
  static Value low(Pair v) { return static_cast<Value>(polymio::dtype::load(kType, &v, 0)); }
  static Value high(Pair v) { return static_cast<Value>(polymio::dtype::load(kType, &v, 1)); }
};
using Signed8 = Bytes<polymio::DataType::kInt8, int>;
template <int kExponent, bool kFnuz, bool kDither>
using Result8 = Bytes<kExponent == 4 ? kFnuz ? polymio::DataType::kFloat8Fnuz : polymio::DataType::kFloat8E4m3fn
                      : kFnuz        ? polymio::DataType::kBFloat8Fnuz
                                     : polymio::DataType::kFloat8E5m2,
                      float, kDither>;

inline u32 bits_of(float v) { return std::bit_cast<u32>(v); }
inline u32 bits_of(int v) { return static_cast<u32>(v); }
template <class Sum>
Sum sum_of(u32 bits) {
  return std::bit_cast<Sum>(bits);
}

inline u32 cluster_rank() { return polymio::emulated::cluster_rank(); }
inline void meet_cluster() { polymio::emulated::meet_cluster(); }
inline uint4 load_of_block(u32 shared, u32 rank) { return polymio::emulated::read_shared_of<uint4>(shared, rank); }

}  // namespace sm90
