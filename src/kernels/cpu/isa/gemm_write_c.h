// C of a product: register tiles write it in place, through the sums of one tile, or through the sums of the piece.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/gemm_plan.h"
#include "kernels/cpu/isa/upsample.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Looks up micro-kernels and remembers the last one.
class LastKernel {
 public:
  MicroKernel of(Dot dot, int rows, int vectors) {
    if (rows == rows_ && vectors == vectors_) return kernel_;
    rows_ = rows;
    vectors_ = vectors;
    kernel_ = micro_kernel(dot, rows, vectors);
    return kernel_;
  }

 private:
  MicroKernel kernel_ = nullptr;
  int rows_ = 0, vectors_ = 0;
};

template <class T>
class GemmResult {
 public:
  GemmResult(const Gemm& g, const GemmPlan<T>& plan, Arena& arena)
      : g_(g), plan_(plan), exceeds_cache_(!fits_in_cache<T>(g)) {
    tile_sums_ = arena.take<T>(kMicroRows[1] * kTilePitch<T>);
    row_offsets_ = arena.take<i64>(plan.rows);
    uniform_rows_ = arena.take<int>(plan.rows);
    // write() reads a vector past the last run.
    sums_ = arena.take<T>(plan.has_scratch_sums ? plan.rows * plan.sums_pitch + kSpill<T> : 0);
    upsample_.line = arena.take<T>(plan.is_upsampled ? upsample_room<T>(plan.columns) : 0);
    upsample_.runs = arena.take<Run>(plan.is_upsampled ? plan.columns : 0);
    upsample_.non_temporal = plan.is_non_temporal;
  }

  /// Begins the piece of rows from m0 and columns from n0 on.
  void begin(i64 m0, i64 n0) {
    n0_ = n0;
    find_row_offsets(g_, m0, plan_.rows, row_offsets_);
    find_uniform_rows();
  }
  void begin_block(const DepthBlock& block) {
    is_first_block_ = block.is_first;
    is_last_block_ = block.is_last;
  }
  void finish() {
    if (plan_.is_upsampled) write_zeros_between();
    if (plan_.is_non_temporal) finish_non_temporal_stores();
  }

  /// Whether `columns` columns from `column` of the piece on are in one run.
  bool is_one_run(i64 column, int columns) { return column_run_.length_from(n0_ + column) >= columns; }
  /// Whether the micro-kernel can write `rows` rows of the panel from `row` on at once.
  bool is_uniform(const Panel<T>& panel, i64 row, int rows) const {
    return plan_.has_scratch_sums || (panel.is_contiguous && uniform_rows_[row] >= rows);
  }

  /// A panel of `columns` columns from `column` of the piece on; writes its runs to `runs`.
  Panel<T> panel_at(i64 column, int columns, const T* b, Run* runs) {
    const int vectors = (columns + kLanes<T> - 1) / kLanes<T>;
    int count = 1;
    if (is_one_run(column, columns)) {
      *runs = {columns, column_run_.offset_at(n0_ + column), {}};
    } else {
      count = cut_runs(g_.c.columns, n0_ + column, columns, runs);
    }
    const bool is_contiguous = count == 1 && inner(g_.c.columns).stride == 1 && is_type<T>(g_.c.dtype) &&
                               g_.alpha == 1 && (!is_first_block_ || g_.beta == 0 || g_.beta == 1);
    return {b, column, columns, vectors, count, runs, is_contiguous};
  }

  /// Multiplies `down` vertically or `across` horizontally adjacent tiles; one of the two is 1.
  void multiply_tiles(const Panel<T>& panel, i64 row, int rows, int down, int across, Micro& m) {
    constexpr i64 kSize = sizeof(T);
    const MicroKernel kernel =
        m.b_copy ? copying_kernel(kDot, rows, panel.vectors) : kernels_.of(kDot, rows, panel.vectors);
    const bool has_scratch_sums = plan_.has_scratch_sums;
    m.tiles = down * across;
    m.tail = 0;
    m.add = has_scratch_sums && !is_first_block_;
    if (has_scratch_sums) {
      m.c = sums_ + row * plan_.sums_pitch + panel.column;
      m.c_row = plan_.sums_pitch * kSize;
    } else if (panel.is_contiguous && uniform_rows_[row] >= rows * down) {
      m.c = static_cast<T*>(g_.c.data) + row_offsets_[row] + panel.runs[0].offset;
      m.c_row = rows * down > 1 ? (row_offsets_[row + 1] - row_offsets_[row]) * kSize : 0;
      m.tail = panel.columns - (panel.vectors - 1) * kLanes<T>;
      m.add = !is_first_block_ || g_.beta == 1;
      const bool has_whole_lines = m.tail == kLanes<T> && is_line_aligned(m.c) && m.c_row % 64 == 0;
      m.non_temporal = plan_.is_non_temporal && !m.add && has_whole_lines;
      m.prefetch_c = exceeds_cache_ && !m.non_temporal;
    } else {
      m.c = tile_sums_;
      m.c_row = kTilePitch<T> * kSize;
      kernel(m);
      return write(panel, row, rows, tile_sums_, kTilePitch<T>);
    }
    m.c_next = across > 1 ? panel.vectors * kVectorBytes : rows * m.c_row;
    kernel(m);
    for (int p = 0; has_scratch_sums && is_last_block_ && !plan_.is_upsampled && p < across; ++p)
      write((&panel)[p], row, rows * down, static_cast<T*>(m.c) + p * panel.vectors * kLanes<T>, plan_.sums_pitch);
  }

 private:
  static constexpr Dot kDot = sizeof(T) == sizeof(double) ? Dot::kDouble : Dot::kFloat;

  void find_uniform_rows() {
    const i64 rows = plan_.rows;
    if (is_uniformly_strided(g_.c.rows)) {
      for (i64 i = 0; i < rows; ++i) uniform_rows_[i] = static_cast<int>(rows - i);
      return;
    }
    for (i64 i = rows; i-- > 0;) {
      const i64* const offset = row_offsets_ + i;
      const bool is_uniform = i + 2 < rows && offset[2] - offset[1] == offset[1] - offset[0];
      uniform_rows_[i] = i + 1 == rows ? 1 : is_uniform ? uniform_rows_[i + 1] + 1 : 2;
    }
  }

  /// C with its gap: the zeros between elements and lines, too.
  void write_zeros_between() {
    upsample_.count = cut_runs(g_.c.columns, n0_, static_cast<int>(plan_.columns), upsample_.runs);
    for (i64 row = 0; row < plan_.rows; ++row)
      upsample_.write(static_cast<T*>(g_.c.data) + row_offsets_[row], g_.c.gap, sums_ + row * plan_.sums_pitch,
                      static_cast<T>(g_.alpha));
  }

  /// Writes sums to C: finished ones, or those of one block of depth.
  void write(const Panel<T>& panel, i64 row, int rows, const T* sums, i64 pitch) {
    const i64 stride = inner(g_.c.columns).stride;
    const bool is_first_write = is_first_block_ || plan_.has_scratch_sums;
    const T alpha = static_cast<T>(g_.alpha), beta = is_first_write ? static_cast<T>(g_.beta) : T{1};
    with_storage<T>(g_.c.dtype, [&](auto* s) {
      auto* const c = static_cast<decltype(s)>(g_.c.data);
      for (int r = 0; r < rows; ++r)
        write_runs(c + row_offsets_[row + r], stride, panel.runs, panel.run_count, sums + r * pitch, alpha, beta);
    });
  }

  const Gemm& g_;
  const GemmPlan<T>& plan_;
  const bool exceeds_cache_;  // B or C
  T *tile_sums_, *sums_;      // of one tile; of the piece, if plan_.has_scratch_sums
  Upsample<T> upsample_;
  CachedRun column_run_{&g_.c.columns};
  i64* row_offsets_;   // in elements
  int* uniform_rows_;  // [i]: uniformly strided rows from row i on
  i64 n0_ = 0;
  bool is_first_block_ = true, is_last_block_ = true;
  LastKernel kernels_;
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
