// A of a product: its rows for a block of depth, in place, packed in row panels, or copied.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/gemm_plan.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

template <class T>
class GemmRows {
 public:
  GemmRows(const Gemm& g, const GemmPlan<T>& plan, Arena& arena)
      : a_(g.a),
        plan_(plan),
        copy_(arena.take<T>(plan.a_elements() + kSpill<T>)),
        segments_(arena.take<Segment>(plan.read_a == ReadA::kInPlace ? plan.rows / kMinSegmentRows + 3 : 2)) {}

  /// Prepares rows from m0 on. `runs`: scratch.
  void prepare(i64 m0, const DepthBlock& block, Run* runs) {
    block_ = block;
    prefetch_offset_ = 0;
    segment_count_ = 1;
    segments_[0] = {0, plan_.rows, reinterpret_cast<const char*>(copy_)};
    switch (plan_.read_a) {
      case ReadA::kInPlace: return find_segments(m0, runs);
      case ReadA::kRowPanels: return pack_row_panels(m0);
      default: return copy(m0, runs);
    }
  }

  /// Uniformly strided rows, each a segment.
  int segment_count() const { return segment_count_; }
  Segment& segment(int i) { return segments_[i]; }
  /// Bytes from row to row, from step to step.
  i64 row_stride() const { return row_stride_; }
  i64 step_stride() const { return step_stride_; }
  /// Bytes from a tile of `rows` rows to the next one.
  i64 tile_stride(int rows) const {
    return plan_.read_a == ReadA::kRowPanels ? block_.depth * step_stride_ : row_stride_ * rows;
  }

  /// Lets each step of `tiles` tiles of `rows` rows prefetch a line of A where tiles read A in place and sequentially:
  /// rows at least 4 KiB below the tile if depths are contiguous, the next block of depth if rows are. Else returns
  /// false.
  bool prefetch(Micro& m, int rows, bool is_first_panel, int tiles) {
    constexpr i64 kDistance = 4096, kLine = 64, kSize = sizeof(T);
    if (plan_.read_a != ReadA::kInPlace) return false;
    const i64 depth = block_.depth, tile_bytes = row_stride_ * rows;
    if (step_stride_ == kSize && is_first_panel && row_stride_ > 0 && row_stride_ <= depth * kSize * 5 / 4 &&
        tile_bytes <= kLine * depth) {
      m.prefetch = static_cast<const char*>(m.a) + ceil_div(kDistance, tile_bytes) * tile_bytes;
      m.prefetch_tile_bytes = tile_bytes;
      m.prefetch_tiles = tiles;
    } else if (row_stride_ == kSize && step_stride_ == plan_.rows * kSize && prefetch_offset_ < step_stride_ &&
               !block_.is_last) {
      m.prefetch = segments_[0].a + depth * (step_stride_ + prefetch_offset_);
      m.prefetch_tile_bytes = kLine * depth;
      m.prefetch_tiles = min_of<i64>(tiles, ceil_div(step_stride_ - prefetch_offset_, kLine));
      prefetch_offset_ += tiles * kLine;
    } else {
      return false;
    }
    m.prefetch_step_bytes = m.prefetch_tile_bytes / depth;
    return true;
  }

 private:
  void find_segments(i64 m0, Run* runs) {
    constexpr i64 kSize = sizeof(T);
    segment_count_ = cut_runs(a_.lanes, m0, static_cast<int>(plan_.rows), runs);
    const i64 start = a_.offset + seek(a_.depth, block_.first).offset;
    i64 row = 0;
    for (int i = 0; i < segment_count_; ++i) {
      segments_[i] = {row, runs[i].length, static_cast<const char*>(a_.data) + (start + runs[i].offset) * kSize};
      row += runs[i].length;
    }
    row_stride_ = inner(a_.lanes).stride * kSize;
    step_stride_ = inner(a_.depth).stride * kSize;
  }

  /// Rows past the last full panel are a segment of their own.
  void pack_row_panels(i64 m0) {
    constexpr int kChunk = kPanelRows < kLanes<T> ? kPanelRows : kLanes<T>;
    const i64 rows = plan_.rows, depth = block_.depth;
    const i64 stride = inner(a_.depth).stride, full_panel_rows = rows / kPanelRows * kPanelRows;
    const T* source = static_cast<const T*>(a_.data) + a_.offset + seek(a_.depth, block_.first).offset + m0;
    T* packed = copy_;
    row_stride_ = sizeof(T);
    step_stride_ = kPanelRows * sizeof(T);
    segment_count_ = 0;
    if (full_panel_rows > 0) segments_[segment_count_++] = {0, full_panel_rows, reinterpret_cast<const char*>(copy_)};
    for (i64 row = 0; row < rows; row += kPanelRows, source += kPanelRows) {
      const T* line = source;
      if (row < full_panel_rows) {
        for (i64 k = 0; k < depth; ++k, line += stride, packed += kPanelRows)
          for (int e = 0; e < kPanelRows; e += kChunk) store<T, kChunk>(packed + e, load<T, kChunk>(line + e));
        continue;
      }
      segments_[segment_count_++] = {row, rows - row, reinterpret_cast<const char*>(packed)};
      const int rest = static_cast<int>(rows - row);
      for (i64 k = 0; k < depth; ++k, line += stride, packed += kPanelRows)
        for (int e = 0; e < rest; e += kChunk) store(packed + e, load_lanes(line + e, 0, min_of(rest - e, kChunk)));
    }
  }

  void copy(i64 m0, Run* runs) {
    constexpr i64 kSize = sizeof(T);
    const bool has_lines_of_rows = plan_.read_a == ReadA::kRowsCopied;
    const int height = static_cast<int>(plan_.rows), depth = static_cast<int>(block_.depth);
    row_stride_ = has_lines_of_rows ? plan_.a_pitch * kSize : kSize;
    step_stride_ = has_lines_of_rows ? kSize : plan_.a_pitch * kSize;
    with_storage<T>(a_.dtype, [&](auto* s) {
      using S = std::remove_pointer_t<decltype(s)>;
      if (has_lines_of_rows) {
        copy_lines<T, S>(a_, a_.lanes, m0, height, a_.depth, block_.first, depth, depth, copy_, plan_.a_pitch, runs);
      } else {
        copy_lines<T, S>(a_, a_.depth, block_.first, depth, a_.lanes, m0, height, height, copy_, plan_.a_pitch, runs);
      }
    });
  }

  const Operand& a_;
  const GemmPlan<T>& plan_;
  T* copy_;
  Segment* segments_;
  int segment_count_ = 0;
  DepthBlock block_{};
  i64 row_stride_ = 0, step_stride_ = 0;
  i64 prefetch_offset_ = 0;  // bytes per depth of the next block that tiles have prefetched
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
