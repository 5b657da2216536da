// How a product of fp32 or fp64 sums reads its operands and writes C.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/caches.h"
#include "kernels/cpu/isa/copy_blocks.h"
#include "kernels/cpu/isa/gemm_scratch.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// How register tiles read A.
enum class ReadA {
  kInPlace,
  kRowPanels,    // packed [panel][depth][row of the panel]
  kRowsCopied,   // [row][depth]
  kDepthsCopied  // [depth][row]
};

inline constexpr int kPanelRows = kMicroRows[3];  // of ReadA::kRowPanels
/// Columns of the widest register tile.
template <class T>
inline constexpr int kTilePitch = kMicroVectors* kLanes<T>;

/// A piece of C: `rows` x `columns`. Pitches in elements.
template <class T>
struct GemmPlan {
  i64 rows, columns;
  i64 max_depth;  // of a block of depth
  bool has_in_place_b;
  i64 block_columns;  // of B that are copied and multiplied together
  ReadA read_a;
  i64 a_pitch, b_pitch, sums_pitch;  // of the copies and of the sums
  bool is_upsampled;                 // C has a gap
  bool is_non_temporal;
  bool has_panels_outermost;  // all rows of a panel before the next panel
  bool has_panel_copy;        // the first tile of a panel copies its B for the others
  bool has_scratch_sums;      // partial sums of several blocks of depth, or sums to be upsampled

  GemmPlan(const Gemm& g, i64 all_rows, i64 all_columns)
      : rows(all_rows), columns(all_columns), max_depth(depth_step<T>(g)) {
    has_in_place_b = POLYMIO_ISA_NAMESPACE::has_in_place_b<T>(g, rows, max_depth);
    block_columns = POLYMIO_ISA_NAMESPACE::block_columns<T>(g, max_depth, rows, columns);
    read_a = read_a_of(g);
    has_panels_outermost = has_in_place_b || block_columns <= kTilePitch<T>;
    has_panel_copy = copies_b_panels(rows);
    a_pitch = read_a == ReadA::kRowPanels ? kPanelRows : pitch_of<T>(read_a == ReadA::kRowsCopied ? max_depth : rows);
    b_pitch = has_panels_outermost ? min_of<i64>(block_columns, kTilePitch<T>) : pitch_of<T>(block_columns);
    sums_pitch = pitch_of<T>(columns);
    is_upsampled = g.c.gap != 0 && g.beta == 0;
    const bool is_large = max_of(g.k, g.m) * g.n * static_cast<i64>(sizeof(T)) > kResultCaches / 2;
    is_non_temporal = kVectorBytes == 64 && !g.epilogue && is_large && (is_upsampled || max_depth >= g.k);
    has_scratch_sums =
        is_upsampled || (max_depth < g.k && (size_of_type<T>(g.c.dtype) < sizeof(T) || inner(g.c.columns).stride != 1));
  }

  /// Elements of the copy of A.
  i64 a_elements() const {
    switch (read_a) {
      case ReadA::kInPlace: return 0;
      case ReadA::kRowPanels: return round_up(rows, kPanelRows) * max_depth;
      case ReadA::kRowsCopied: return a_pitch * rows;
      case ReadA::kDepthsCopied: return max_depth * a_pitch;
    }
    __builtin_unreachable();
  }

 private:
  ReadA read_a_of(const Gemm& g) const {
    if (has_row_panels<T>(g, columns)) return ReadA::kRowPanels;
    if (has_in_place_a<T>(g)) return ReadA::kInPlace;
    return run_cost(g.a.depth) <= run_cost(g.a.lanes) ? ReadA::kRowsCopied : ReadA::kDepthsCopied;
  }
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
