// The micro-kernel family: a register tile C (rows x vectors) summed over a list of blocks A_i * B_i
// (batch-reduce, as in Georganas et al., "High-Performance Deep Learning via a Single Building Block").
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/vec.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// What one step of depth multiplies. A step covers `group` neighbours of the summed dimension, which lie
/// next to each other in both operands: element (row, step) of A is the `group` elements that are broadcast,
/// vector j of (step) of B holds `group` elements for each of its lanes, lane by lane.
enum class Dot : int {
  kFloat,        // fp32 x fp32 -> fp32, group 1
  kDouble,       // fp64 x fp64 -> fp64, group 1
  kBf16,         // bf16 x bf16 -> fp32, group 2: only where kHasBf16Dot
  kInt8,         // u8, for tile registers s8, (A) x s8 (B) -> s32, group 4: only where kHasInt8Dot
  kInt16,        // s16 x s16 -> s32, group 2: sums of int8 values, exact
  kSigned8 = 6,  // s8, 128 larger once it is broadcast, x s8 -> s32, group 4: only where kHasInt8Dot
};

#if defined(__AVX512BF16__)
inline constexpr bool kHasBf16Dot = true;
#else
inline constexpr bool kHasBf16Dot = false;
#endif
#if defined(__AVX512VNNI__)
inline constexpr bool kHasInt8Dot = true;
#else
inline constexpr bool kHasInt8Dot = false;
#endif

/// The most vectors of a tile, and the most rows for so many vectors: what the registers hold.
inline constexpr int kMicroVectors = 4;
#if defined(__AVX512F__)
inline constexpr int kMicroRows[kMicroVectors + 1] = {0, 16, 14, 8, 6};
#else
inline constexpr int kMicroRows[kMicroVectors + 1] = {0, 12, 6, 4, 2};
#endif

/// One tile, or several at even distances. Offsets and strides are in bytes; A and B may overlap others in memory, C
/// may not.
struct Micro {
  const void* a = nullptr;
  const void* b = nullptr;
  const i64* a_block = nullptr;  // A_i starts at a + a_block[i], B_i at b + b_block[i]
  const i64* b_block = nullptr;
  i64 blocks = 1;
  i64 depth = 0;              // steps of each block
  i64 a_row = 0, a_step = 0;  // from one row, one step of A to the next
  i64 b_step = 0;             // from one step of B to the next; its vectors are contiguous
  void* c = nullptr;          // fp32, fp64 or s32; bf16 if it rounds
  i64 c_row = 0;
  int tail = 0;                      // lanes of the last vector that are stored; 0: all. All of B is always read.
  bool add = false;                  // c += instead of c =
  bool rounds = false;               // sums of kBf16 to bf16, subnormal ones to zero; not with add
  bool non_temporal = false;         // C is written past the caches: whole lines, not with add or tail
  bool fetches_c = false;            // lines of C are far away
  const void* zero_point = nullptr;  // of each lane: what sums of kInt8 and kSigned8 have too much
  i64 tiles = 1;
  i64 a_next = 0, b_next = 0, c_next = 0;  // from one tile to the next
  // Lines that the first tiles of floats fetch into the second-level cache, one with each step. A tile begins
  // prefetch_next behind the one before.
  const void* prefetch = nullptr;
  i64 prefetch_step = 0, prefetch_tiles = 0, prefetch_next = 0;
  // Of copying_kernel: where to; all this so many times, side by side; if more than 1, a line for so many steps, and so
  // many tiles are a run, prefetch_wrap behind the run before; a panel begins prefetch_panel behind the one before.
  void* copy = nullptr;
  i64 panels = 1, prefetch_every = 1, prefetch_wrap = 0, prefetch_panel = 0;
};

using MicroKernel = void (*)(const Micro&);

/// The kernel for rows in [1, kMicroRows[vectors]] and vectors in [1, kMicroVectors]. With kAddsProducts there are only
/// those of kBf16, kInt8 and kSigned8.
MicroKernel micro_kernel(Dot dot, int rows, int vectors);
/// The same for floats or doubles, for tiles with the same B: the first one copies it, step by step without gaps, and
/// the others read the copy.
MicroKernel copying_kernel(Dot dot, int rows, int vectors);

/// Bytes of a broadcast element group of A, of B's elements for one lane, and of an element of C.
constexpr i64 micro_group_bytes(Dot dot) { return dot == Dot::kDouble ? 8 : 4; }
/// Lanes of a vector of C.
constexpr int micro_lanes(Dot dot) { return kVectorBytes / static_cast<int>(micro_group_bytes(dot)); }
/// Neighbours of the summed dimension in one step.
constexpr int micro_group(Dot dot) {
  return dot == Dot::kInt8 || dot == Dot::kSigned8 ? 4 : dot == Dot::kBf16 || dot == Dot::kInt16 ? 2 : 1;
}

/// Whether bf16 products are faster than widening to fp32: measured once, since processors differ by four times.
bool prefers_bf16_dot();

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
