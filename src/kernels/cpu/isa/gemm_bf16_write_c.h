// C of a product of bf16 pairs: sums of fp32 that are rounded when they are finished.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/copy_blocks.h"
#include "kernels/cpu/isa/gemm_bf16_plan.h"
#include "kernels/cpu/isa/store_bf16.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// A panel: its columns, its copy of B and its sums.
struct PairPanel {
  i64 first, count;
  const std::int32_t* b;
  float* sums;
};

class PairResult {
 public:
  PairResult(const Gemm& g, const PairPlan& plan, Arena& arena)
      : g_(g),
        plan_(plan),
        sums_(arena.take<float>(max_of(plan.rows, 2 * kBlockRows) * plan.sums_pitch)),
        column_runs_(arena.take<Run>(kPanelColumns + 1)),
        row_offsets_(arena.take<i64>(plan.rows)) {}

  void begin(i64 m0) { find_row_offsets(g_, m0, plan_.rows, row_offsets_); }
  void finish() const {
    if (plan_.is_non_temporal) finish_non_temporal_stores();
  }

  /// Sums of the columns from `column` of the piece on.
  float* sums(i64 column) const { return sums_ + (plan_.has_partial_sums ? column : 0); }
  float* sums(const PairPanel& panel, i64 row) const {
    return panel.sums + (plan_.has_partial_sums ? row * plan_.sums_pitch : 0);
  }
  /// Offsets of rows, in elements.
  const i64* row_offsets() const { return row_offsets_; }

  /// The line of row offset 0 if C of these columns is bf16 lines of unscaled sums, else null.
  Bfloat16* plain_line(i64 first, i64 count) const { return is_plain(cut(first, count)) ? plain_data() : nullptr; }

  /// Cuts the columns of a panel into runs for write(); returns how many.
  int cut(i64 first, i64 count) const { return cut_runs(g_.c.columns, first, static_cast<int>(count), column_runs_); }

  /// Writes finished sums of `rows` rows of a panel, of `count` runs.
  void write(i64 row, i64 rows, const PairPanel& panel, int count) const {
    const i64* const to = row_offsets_ + row;
    const float* from = sums(panel, row);
    if (is_plain(count)) {
      Bfloat16* const c = plain_data();
      const bool is_full_panel = panel.count == kPanelColumns && !plan_.is_non_temporal;
      for (i64 i = 0; is_full_panel && i < rows; ++i) store_bf16_panel(from + i * plan_.sums_pitch, c + to[i]);
      for (i64 i = 0; !is_full_panel && i < rows; ++i)
        store_bf16_line(from + i * plan_.sums_pitch, panel.count, c + to[i], plan_.is_non_temporal);
      return;
    }
    const i64 stride = inner(g_.c.columns).stride;
    const auto alpha = static_cast<float>(g_.alpha), beta = static_cast<float>(g_.beta);
    with_storage<float>(g_.c.dtype, [&](auto* s) {
      auto* const c = static_cast<decltype(s)>(g_.c.data);
      for (i64 i = 0; i < rows; ++i)
        write_runs(c + to[i], stride, column_runs_, count, from + i * plan_.sums_pitch, alpha, beta);
    });
  }

 private:
  bool is_plain(int runs) const {
    return runs == 1 && inner(g_.c.columns).stride == 1 && g_.c.dtype == DataType::kBFloat16 && g_.alpha == 1 &&
           g_.beta == 0;
  }
  Bfloat16* plain_data() const { return static_cast<Bfloat16*>(g_.c.data) + column_runs_[0].offset; }

  const Gemm& g_;
  const PairPlan& plan_;
  float* sums_;
  Run* column_runs_;
  i64* row_offsets_;
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
