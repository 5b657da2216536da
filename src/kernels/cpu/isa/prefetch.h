// Lines of B that the tiles of a product fetch for later ones. They are spread over all tiles: a core waits for some
// ten or twenty lines at a time, and more in a row hold up the sums. SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/micro_kernel.h"
#include "kernels/cpu/isa/gemm_operands.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

class Prefetcher {
 public:
  /// Wanted next are `vectors` columns behind those at hand, in lines `pitch` bytes apart.
  void look_behind(const void* columns, i64 vectors, i64 pitch) {
    behind_ = static_cast<const char*>(columns);
    vectors_ = columns != nullptr ? vectors : 0;
    pitch_ = pitch;
  }
  /// Wanted next, rather than those columns, are these bytes; null: they are not.
  void look_below(const void* block, i64 bytes) {
    below_ = static_cast<const char*>(block);
    each_ = bytes;
  }
  bool looks_behind() const { return behind_ != nullptr; }
  /// The tiles that will share them.
  void share(i64 tiles) { each_ = ceil_div(each_, tiles); }

  /// What `tiles` tiles fetch, of `all` below one another.
  void fetch(Micro& m, int tiles, int all) {
    if (below_ != nullptr) {
      m.prefetch = below_;
      m.prefetch_step = ceil_div(each_, m.depth);
      m.prefetch_next = each_;
      m.prefetch_tiles = tiles;
      m.prefetch_panel = tiles * each_;
      below_ += m.panels * m.prefetch_panel;
      return;
    }
    m.prefetch = behind_;
    m.prefetch_step = pitch_;
    m.prefetch_panel = vectors_ * kVectorBytes;
    const i64 lines = ceil_div(vectors_ * kVectorBytes, kLine), every = min_of(tiles / max_of<i64>(lines, 1), kSteps);
    if (m.copy != nullptr && every > 1 && lines > 0) {
      m.prefetch_every = every;
      m.prefetch_next = ceil_div(m.depth, every) * pitch_;
      m.prefetch_wrap = kLine;
      m.prefetch_tiles = every * lines;
      vectors_ = 0;
      return;
    }
    // Of few tiles each fetches a column; some are left out.
    const int step = all > 2 ? 1 : 4 - all;
    m.prefetch_next = kVectorBytes;
    m.prefetch_tiles = min_of<i64>(vectors_, tiles);
    vectors_ = max_of<i64>(vectors_ - tiles * step, 0);
    behind_ += tiles * step * kVectorBytes;
  }

 private:
  static constexpr i64 kLine = 64, kSteps = 4;
  const char *behind_ = nullptr, *below_ = nullptr;
  i64 vectors_ = 0, pitch_ = 0, each_ = 0;
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
