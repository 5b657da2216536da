// The micro-kernel family: a register tile C (rows x vectors) summed over a list of blocks A_i * B_i (batch-reduce, as
// in Georganas et al., "High-Performance Deep Learning via a Single Building Block").
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/vec.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// The products of one step of depth. A step covers `group` neighbours of the summed dimension, contiguous in both
/// operands (a dot operand): the kernel broadcasts the group of (row, step) of A; vector j of (step) of B holds one
/// group per lane.
enum class Dot : int {
  kFloat,        // fp32 x fp32 -> fp32, group 1
  kDouble,       // fp64 x fp64 -> fp64, group 1
  kBf16,         // bf16 x bf16 -> fp32, group 2: only where kHasBf16Dot
  kInt8,         // u8 (A; s8 with AMX) x s8 (B) -> s32, group 4: only where kHasInt8Dot
  kInt16,        // s16 x s16 -> s32, group 2: sums of int8 values, exact
  kSigned8 = 6,  // s8 (A), plus 128 after the broadcast, x s8 (B) -> s32, group 4: only where kHasInt8Dot
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

/// The largest register tile: kMicroRows[v] rows by v <= kMicroVectors vectors, all of whose sums stay in registers.
inline constexpr int kMicroVectors = 4;
#if defined(__AVX512F__)
inline constexpr int kMicroRows[kMicroVectors + 1] = {0, 16, 14, 8, 6};
#else
inline constexpr int kMicroRows[kMicroVectors + 1] = {0, 12, 6, 4, 2};
#endif

/// One register tile, or several at a constant distance. Offsets and strides are in bytes; tiles may overlap in A and
/// B, not in C.
struct Micro {
  // Operands.
  const void* a = nullptr;
  const void* b = nullptr;
  const i64* a_block = nullptr;  // A_i starts at a + a_block[i], B_i at b + b_block[i]; null: at a, at b
  const i64* b_block = nullptr;
  i64 blocks = 1;
  i64 depth = 0;              // steps per block
  i64 a_row = 0, a_step = 0;  // strides of A from row to row, from step to step
  i64 b_step = 0;             // stride of B from step to step; the vectors of a step are contiguous

  // The result.
  void* c = nullptr;  // fp32, fp64 or s32; bf16 if is_c_bf16
  i64 c_row = 0;
  int tail = 0;                      // lanes of the last vector that are stored; 0: all. All lanes of B are read.
  bool add = false;                  // c += instead of c =
  bool is_c_bf16 = false;            // kBf16: round the sums to bf16, subnormal ones to zero; not with add
  bool non_temporal = false;         // non-temporal stores of whole cache lines; not with add or tail
  bool prefetch_c = false;           // C is not in the cache
  const void* zero_point = nullptr;  // s32 per lane, subtracted from sums of kInt8 and kSigned8

  // Several tiles.
  i64 tiles = 1;
  i64 a_next = 0, b_next = 0, c_next = 0;  // from tile to tile

  // Prefetches into the second-level cache, kFloat only: each of the first prefetch_tiles tiles prefetches one cache
  // line per step of depth.
  const void* prefetch = nullptr;  // the first line of the first tile
  i64 prefetch_step_bytes = 0;     // from line to line of a tile
  i64 prefetch_tiles = 0;
  i64 prefetch_tile_bytes = 0;  // from tile to tile

  // copying_kernel only. With steps_per_prefetch = n > 1 a tile prefetches a line every n steps, and n tiles form a
  // group.
  void* b_copy = nullptr;  // the first tile of a panel writes its B here
  i64 panels = 1;          // all tiles are computed for each of these panels, which are adjacent in B and C
  i64 steps_per_prefetch = 1;
  i64 prefetch_group_bytes = 0;  // from group to group of tiles
  i64 prefetch_panel_bytes = 0;  // from panel to panel
};

using MicroKernel = void (*)(const Micro&);

/// The kernel for rows in [1, kMicroRows[vectors]] and vectors in [1, kMicroVectors]. Where kAddsProducts, only kBf16,
/// kInt8 and kSigned8 have kernels.
MicroKernel micro_kernel(Dot dot, int rows, int vectors);
/// For kFloat or kDouble and tiles with the same B: the first tile copies B, its steps contiguous, and the others read
/// the copy.
MicroKernel copying_kernel(Dot dot, int rows, int vectors);

/// Bytes of a dot operand and of an element of C.
constexpr i64 micro_group_bytes(Dot dot) { return dot == Dot::kDouble ? 8 : 4; }
/// Lanes of a vector of C.
constexpr int micro_lanes(Dot dot) { return kVectorBytes / static_cast<int>(micro_group_bytes(dot)); }
/// Neighbours of the summed dimension in one step.
constexpr int micro_group(Dot dot) {
  return dot == Dot::kInt8 || dot == Dot::kSigned8 ? 4 : dot == Dot::kBf16 || dot == Dot::kInt16 ? 2 : 1;
}

/// Whether bf16 products are faster than fp32 products of widened operands. Measured once per process: vdpbf16ps runs
/// at half the fp32 rate on a Xeon model 207 and at twice the rate on Zen 5.
bool prefers_bf16_dot();

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
