// Software prefetch of B: the tiles of a product prefetch cache lines that later tiles read. The lines are distributed
// evenly over the tiles: a core has some ten or twenty outstanding line fills, and a burst of more stalls the sums.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/micro_kernel.h"
#include "kernels/cpu/isa/gemm_block_sizes.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

class Prefetcher {
 public:
  /// The next columns to read: `vectors` vectors of each depth, from `columns` on, depths `pitch` bytes apart; null:
  /// none.
  void set_next_columns(const void* columns, i64 vectors, i64 pitch) {
    next_columns_ = static_cast<const char*>(columns);
    vectors_ = columns != nullptr ? vectors : 0;
    pitch_ = pitch;
  }
  /// The next block of depth: `bytes` contiguous bytes, prefetched instead of the next columns; null: none.
  void set_next_depth_block(const void* block, i64 bytes) {
    next_depth_block_ = static_cast<const char*>(block);
    bytes_per_tile_ = bytes;
  }
  bool has_next_columns() const { return next_columns_ != nullptr; }
  /// Distributes the next block of depth over `tiles` tiles.
  void distribute(i64 tiles) { bytes_per_tile_ = ceil_div(bytes_per_tile_, tiles); }

  /// Sets what the `tiles` tiles of m prefetch, out of `column_tiles` tiles per panel.
  void schedule(Micro& m, int tiles, int column_tiles) {
    if (next_depth_block_ != nullptr) {
      m.prefetch = next_depth_block_;
      m.prefetch_step_bytes = ceil_div(bytes_per_tile_, m.depth);
      m.prefetch_tile_bytes = bytes_per_tile_;
      m.prefetch_tiles = tiles;
      m.prefetch_panel_bytes = tiles * bytes_per_tile_;
      next_depth_block_ += m.panels * m.prefetch_panel_bytes;
      return;
    }
    m.prefetch = next_columns_;
    m.prefetch_step_bytes = pitch_;
    m.prefetch_panel_bytes = vectors_ * kVectorBytes;
    const i64 lines = ceil_div(vectors_ * kVectorBytes, kLine);
    const i64 steps = min_of(tiles / max_of<i64>(lines, 1), kMaxStepsPerPrefetch);
    if (m.b_copy != nullptr && steps > 1 && lines > 0) {
      m.steps_per_prefetch = steps;
      m.prefetch_tile_bytes = ceil_div(m.depth, steps) * pitch_;
      m.prefetch_group_bytes = kLine;
      m.prefetch_tiles = steps * lines;
      vectors_ = 0;
      return;
    }
    // One vector of columns per tile; with two tiles per panel only half of the columns, with one tile a third.
    const int columns_per_tile = column_tiles > 2 ? 1 : 4 - column_tiles;
    m.prefetch_tile_bytes = kVectorBytes;
    m.prefetch_tiles = min_of<i64>(vectors_, tiles);
    vectors_ = max_of<i64>(vectors_ - tiles * columns_per_tile, 0);
    next_columns_ += tiles * columns_per_tile * kVectorBytes;
  }

 private:
  static constexpr i64 kLine = 64, kMaxStepsPerPrefetch = 4;
  const char* next_columns_ = nullptr;
  const char* next_depth_block_ = nullptr;
  i64 vectors_ = 0;         // of the next columns, not yet prefetched
  i64 pitch_ = 0;           // bytes from depth to depth of the next columns
  i64 bytes_per_tile_ = 0;  // of the next block of depth
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
