// B of a product: blocks of its columns for a block of depth, in place or copied, and their prefetches.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/gemm_plan.h"
#include "kernels/cpu/isa/prefetch.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

template <class T>
class GemmColumns {
 public:
  GemmColumns(const Gemm& g, const GemmPlan<T>& plan, Arena& arena)
      : b_(g.b),
        plan_(plan),
        is_readable_(is_readable_in_place<T>(g, g.b) && inner(g.b.lanes).stride == 1),
        copy_(arena.take<T>(plan.max_depth * plan.b_pitch + kSpill<T>)) {
    space_.line_pitch = pitch_of<T>(plan.max_depth + kSpill<T>);
    space_.lines = arena.take<T>(kLanes<T> * space_.line_pitch);
    space_.runs = arena.take<Run>(max_of(max_of(plan.rows, plan.block_columns), plan.max_depth) + 1);
  }

  void begin_block(const DepthBlock& block) {
    block_ = block;
    depth_offset_ = seek(b_.depth, block.first).offset;
  }

  /// [depth][column] of B in place or of its copy, depths `pitch` elements apart.
  struct Block {
    const T* data;
    i64 pitch;
    int columns;
  };
  /// At most `left` columns from `first` on.
  Block block_at(i64 first, i64 left) {
    if (is_readable_) {
      const i64 pitch = inner(b_.depth).stride;
      const i64 width = min_of(left, lane_run_.length_from(first)) / kLanes<T> * kLanes<T>;
      if (width > 0 && (width == left || width >= 3 * kLanes<T>)) {
        const T* const source = static_cast<const T*>(b_.data) + b_.offset + lane_run_.offset_at(first) + depth_offset_;
        prefetch_columns(source + width, width);
        prefetch_depth_block(source, pitch, width);
        if (plan_.has_in_place_b) return {source, pitch, static_cast<int>(width)};
        copy_uniform(source, pitch, width);
        return {copy_, plan_.b_pitch, static_cast<int>(width)};
      }
    }
    prefetch_columns(nullptr, 0);
    prefetcher_.set_next_depth_block(nullptr, 0);
    const int columns = static_cast<int>(plan_.has_in_place_b ? min_of<i64>(left, 3 * kLanes<T>) : left);
    pack(first, columns);
    return {copy_, plan_.b_pitch, columns};
  }

  /// Where the first tile of a panel in place copies it.
  T* copy() { return copy_; }
  /// Scratch for GemmRows::prepare.
  Run* runs() { return space_.runs; }

  Prefetcher& prefetcher() { return prefetcher_; }
  /// Tiles prefetch the columns from `next` on,
  void prefetch_columns(const T* next, i64 columns) {
    prefetcher_.set_next_columns(next, columns / kLanes<T>, inner(b_.depth).stride * static_cast<i64>(sizeof(T)));
  }

 private:
  /// or the next block of depth instead, if it follows this one in memory and both fit the cache.
  void prefetch_depth_block(const T* b, i64 pitch, i64 columns) {
    const i64 bytes = block_.depth * pitch * static_cast<i64>(sizeof(T));
    const bool is_next =
        !block_.is_last && pitch == columns && is_uniformly_strided(b_.depth) && bytes <= kColumnBlockBytes;
    prefetcher_.set_next_depth_block(is_next ? b + block_.depth * pitch : nullptr, bytes);
  }

  /// `columns` is a multiple of the vector.
  void copy_uniform(const T* source, i64 pitch, i64 columns) {
    T* copy = copy_;
    for (i64 k = 0; k < block_.depth; ++k, source += pitch, copy += plan_.b_pitch)
      for (i64 e = 0; e < columns; e += kLanes<T>) store(copy + e, load(source + e));
  }

  void pack(i64 first, int columns) {
    const int depth = static_cast<int>(block_.depth);
    with_storage<T>(b_.dtype, [&](auto* s) {
      using S = std::remove_pointer_t<decltype(s)>;
      if (run_cost(b_.lanes) <= run_cost(b_.depth)) {
        const int padded = static_cast<int>(round_up(columns, kLanes<T>));
        copy_lines<T, S>(b_, b_.depth, block_.first, depth, b_.lanes, first, columns, padded, copy_, plan_.b_pitch,
                         space_.runs);
      } else {
        transpose_part<T, S>(b_, {first, block_.first, columns, depth}, copy_, plan_.b_pitch, space_);
      }
    });
  }

  const Operand& b_;
  const GemmPlan<T>& plan_;
  const bool is_readable_;  // in place, where runs are long enough
  T* const copy_;
  CopySpace<T> space_;
  CachedRun lane_run_{&b_.lanes};
  Prefetcher prefetcher_;
  DepthBlock block_{};
  i64 depth_offset_ = 0;
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
