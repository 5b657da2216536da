// How a product of bf16 pairs is blocked.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/caches.h"
#include "kernels/cpu/isa/amx.h"
#include "kernels/cpu/isa/gemm_scratch.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

inline constexpr i64 kPairLanes = kLanes<std::int32_t>;
inline constexpr i64 kPanelColumns = 2 * kPairLanes;
inline constexpr i64 kBlockRows = kPanelColumns;  // that are multiplied, and then written
inline constexpr i64 kMaxPanelsCopied = 4;        // at once, so that lines of B are read in long runs
inline constexpr i64 kMaxCopyColumns = 512;       // that are copied at once
inline constexpr i64 kFirstLevelBytes =
    32 << 10;                            // of B's copy that stays in the first-level cache beside a block of rows
inline constexpr i64 kPanelDepth = 512;  // a panel of this depth stays in the first-level cache
inline constexpr i64 kPairsOfB = kMaxPanelsCopied * kPanelDepth / 2 * kPanelColumns;  // of B's copy
inline constexpr i64 kMaxDepthCopied = kHasAmx ? kPanelDepth : 4 * kPanelDepth;       // of B at once
inline constexpr i64 kMaxDepthInPlace = 8 * kPanelDepth;                              // of A
inline constexpr i64 kMaxElementsOfA = 512 * 1024;                                    // of A's copy

/// A piece of C: `rows` x `columns`.
struct PairPlan {
  i64 rows, columns;
  bool has_in_place_a;
  i64 max_depth;          // of a block of depth
  bool has_partial_sums;  // of several blocks of depth; else all blocks of rows share the same memory
  i64 sums_pitch;         // in elements
  bool is_non_temporal;

  PairPlan(const Gemm& g, i64 all_rows, i64 all_columns) : rows(all_rows), columns(all_columns) {
    const i64 run = depth_run(g);
    const bool is_even = run > 0 ? run % 2 == 0 : g.k % 2 == 0;
    const bool is_strided_by_rows = is_uniformly_strided(g.a.lanes) && inner(g.a.depth).stride == 1 && !is_bounded(g.a);
    has_in_place_a = is_even && is_strided_by_rows && (run > 0 || is_uniformly_strided(g.a.depth));
    const i64 fitting_depth = round_up(max_of(kMaxElementsOfA / rows, kPanelDepth), kPanelDepth);
    max_depth = min_of(round_up(g.k, 2), has_in_place_a ? kMaxDepthInPlace : min_of(fitting_depth, kMaxDepthInPlace));
    has_partial_sums = g.k > max_depth || (run > 0 && run < g.k);
    sums_pitch = has_partial_sums ? pitch_of<float>(columns) : kPanelColumns;
    // Non-temporal stores pay from fewer bytes on where lines of C are not contiguous.
    const i64 caches = is_uniformly_strided(g.c.columns) ? kResultCaches : kResultCaches / 2;
    is_non_temporal = g.m * g.n * static_cast<i64>(sizeof(Bfloat16)) > caches;
  }

  /// Rows that are multiplied by all panels before the next rows: kBlockRows if B's copy stays in the first-level
  /// cache, as many rows as fit 16 KiB if A is read in place, else all.
  i64 block_rows(const Gemm& g, i64 depth) const {
    constexpr i64 kBytes = 16 << 10;
    const i64 line = depth * static_cast<i64>(sizeof(Bfloat16));
    const i64 block = line * columns <= kFirstLevelBytes ? kBlockRows : kBytes / line / kBlockRows * kBlockRows;
    const bool is_c_contiguous = is_uniformly_strided(g.c.columns) && inner(g.c.columns).stride == 1;
    return has_in_place_a && is_c_contiguous && block > 0 && 2 * block < rows ? block : rows;
  }

  /// Columns of B that are copied together for blocks of `block` rows.
  i64 copy_columns(const Gemm& g, i64 depth, i64 block) const {
    const bool is_row_major = run_cost(g.b.lanes) <= run_cost(g.b.depth);
    if (depth > kMaxDepthCopied || (!is_row_major && block >= rows)) return kPanelColumns;
    if (block >= rows && kHasAmx) return kMaxPanelsCopied * kPanelColumns;
    return min_of(kPairsOfB / ceil_div(depth, 2) / kPanelColumns * kPanelColumns, kMaxCopyColumns);
  }
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
