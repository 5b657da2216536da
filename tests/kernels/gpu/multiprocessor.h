// A multiprocessor of sm90 on the CPU, for templates of CUDA C++ that are compiled with the headers in
// tests/kernels/gpu: blocks of threads, shared memory and barriers; copies of boxes by tensor maps; products of
// operands in shared memory. Threads run one at a time, a block (or a cluster) after the other; copies and products are
// complete when they are issued. What is wrong, like an address beyond shared memory or threads that all wait, throws
// std::runtime_error.
// SPDX-License-Identifier: MIT
#pragma once
#include <bit>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/function_ref.h"
#include "runtime/device.h"

// The language's own names.
#define __device__
#define __forceinline__ inline
#define __shared__
#define __align__(bytes)

struct float2 {
  float x, y;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct ThreadIndex {
  unsigned x;
};
extern ThreadIndex threadIdx, blockIdx, gridDim;  // of the running thread
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline void __stcg(float4* to, float4 v) { *to = v; }
inline float4 __ldcg(const float4* from) { return *from; }
inline int __popc(unsigned v) { return std::popcount(v); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline unsigned atomicAdd(unsigned* to, unsigned v) { return std::exchange(*to, *to + v); }
inline void atomicExch(unsigned* to, unsigned v) { *to = v; }
template <class T>
T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
T max(T a, T b) {
  return a < b ? b : a;
}

namespace sm90 {
constexpr unsigned kMostSharedBytes = 227 << 10;
alignas(1024) extern unsigned char bytes[kMostSharedBytes];  // dynamic shared memory, by the name that kernels give it
}  // namespace sm90

namespace polymio::emulated {

/// A matrix product of a program with operands in shared memory: 64 x columns. Transposed operands are contiguous along
/// rows of a or columns of b.
struct Product {
  DataType a, b;
  int columns;
  bool transpose_a, transpose_b;
};

/// Memory that tensor maps may reach.
struct Extent {
  const void* begin;
  std::size_t bytes;
};

/// Runs `thread` in all threads of all blocks.
void run_blocks(const Launch&, const Product&, std::span<const Extent> memory, FunctionRef<void()> thread);

/// Checks what the driver would check. The map refers to the spec.
TensorMap tensor_map(const TensorMapSpec&, const void* tensor);

// What follows is for the code of threads.

/// Lets other threads run until the condition holds; they call note_progress() when they change something.
void wait_until(FunctionRef<bool()> condition);
void note_progress();

/// Barrier `number` of the block.
void meet(int number, int threads);
void signal(int number, int threads);

/// The numbers of all threads of a warp, until the next call.
std::span<const std::uint32_t, 32> exchange(std::uint32_t value);

std::uint32_t cluster_rank();
void meet_cluster();

/// Addresses of shared memory are those of the state space, not 0.
std::uint32_t shared_address(const void*);
/// Checks that the bytes are within shared memory.
unsigned char* at_shared(std::uint32_t address, std::size_t bytes);
const unsigned char* at_shared_of(std::uint32_t address, std::size_t bytes, std::uint32_t rank);

template <class T>
T read_shared(std::uint32_t address) {
  T v;
  std::memcpy(&v, at_shared(address, sizeof v), sizeof v);
  return v;
}
template <class T>
T read_shared_of(std::uint32_t address, std::uint32_t rank) {
  T v;
  std::memcpy(&v, at_shared_of(address, sizeof v, rank), sizeof v);
  return v;
}

/// Of a box: channels first, images last.
using Coordinates = std::array<int, 5>;
/// The loads return the bytes of the box, of which those outside of the tensor are zero.
std::uint32_t load_pixels(std::uint32_t shared, const TensorMap&, const Coordinates& first,
                          std::span<const int> offset);
void store_pixels(const TensorMap&, std::uint32_t shared, const Coordinates& first);
std::uint32_t load_box(std::uint32_t shared, const TensorMap&, int rank, const Coordinates& first);
void store_box(const TensorMap&, std::uint32_t shared, int rank, const Coordinates& first);

/// Contiguous bytes. Both addresses and `bytes` are multiples of 16.
void load_bulk(std::uint32_t shared, const void* global, std::uint32_t bytes);

/// d = a * b, or d + a * b: this thread's sums of the warpgroup's product.
void multiply(std::span<float> d, std::uint64_t a, std::uint64_t b, bool accumulate);
/// With the first operand in registers, and the second one contiguous along columns.
void multiply(std::span<float> d, const std::uint32_t (&a)[4], std::uint64_t b, bool accumulate);

/// Stores four 8x8 matrices of 16-bit elements.
void store_matrices(std::uint32_t shared, const std::uint32_t (&m)[4], bool transposed);

}  // namespace polymio::emulated

inline void __syncthreads() { polymio::emulated::meet(0, 0); }
inline int __syncthreads_or(int v) {
  static int any;
  __syncthreads();
  any = 0;
  __syncthreads();
  any |= v;
  __syncthreads();
  return any;
}
inline void __syncwarp() { polymio::emulated::exchange(0); }
inline int __shfl_sync(unsigned, int v, int from) {
  return static_cast<int>(polymio::emulated::exchange(static_cast<unsigned>(v))[static_cast<unsigned>(from)]);
}
inline unsigned __shfl_xor_sync(unsigned, unsigned v, int mask) {
  return polymio::emulated::exchange(v)[threadIdx.x % 32 ^ static_cast<unsigned>(mask)];
}
inline int __any_sync(unsigned, int v) {
  bool any = false;
  for (const std::uint32_t each : polymio::emulated::exchange(v != 0)) any = any || each != 0;
  return any;
}
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const std::uint64_t bytes = low | std::uint64_t{high} << 32;
  unsigned v = 0;
  for (unsigned i = 0; i < 4; ++i) v |= static_cast<unsigned>(bytes >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return v;
}
/// Blocks run one after the other: what a thread waits for outside of its block does not come.
inline void __nanosleep(unsigned) {
  polymio::emulated::wait_until([] { return false; });
}
