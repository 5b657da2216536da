// Matrix products of bf16 by instructions that multiply bf16 pairs, two neighbouring depths (vdpbf16ps, AMX). All other
// products are those of POLYMIO_SHARED_NAMESPACE.
// Instruction sets: only those that add dot products.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/epilogue.h"
#include "kernels/cpu/isa/gemm_bf16_operands.h"
#include "kernels/cpu/isa/gemm_bf16_write_c.h"
#include "kernels/cpu/isa/gemv_axpy.h"
#include "kernels/cpu/isa/gemv_dot.h"
#include "kernels/cpu/isa/row_tiles.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

bool has_pair_products() { return kHasAmx || prefers_bf16_dot(); }

bool is_by_pairs(const Gemm& g) {
  constexpr DataType kType = DataType::kBFloat16;
  const bool is_gemv = is_gemv_dot(g) || is_gemv_axpy(g);  // these read their operands once, in place
  return g.a.dtype == kType && g.b.dtype == kType && g.c.gap == 0 && g.k > 0 && has_pair_products() && !is_gemv;
}

/// A block of sums whose rows from `done` on are still to be rounded, while the next block is multiplied.
struct UnroundedBlock {
  const bool is_non_temporal;
  const float* sums = nullptr;
  Bfloat16* line = nullptr;
  const i64* line_offsets = nullptr;
  i64 count = 0, done = kBlockRows;

  __attribute__((always_inline)) void round(i64 rows) {
    const i64 end = min_of(done + rows, kBlockRows);
    if (count == kPanelColumns && !is_non_temporal) {
      for (; done < end; ++done) store_bf16_panel(sums + done * kPanelColumns, line + line_offsets[done]);
    } else {
      for (; done < end; ++done)
        store_bf16_line(sums + done * kPanelColumns, count, line + line_offsets[done], is_non_temporal);
    }
  }
};

/// Multiplies a piece of C; `arena` holds copies and sums.
class PairProduct {
 public:
  PairProduct(const Gemm& g, const PairPlan& plan, Arena& arena)
      : g_(g), plan_(plan), a_(g, plan, arena), b_(g, arena), c_(g, plan, arena), pairs_(plan, arena) {}

  /// Computes rows from m0 and columns from n0 on.
  void run(i64 m0, i64 n0) {
    c_.begin(m0);
    for_depth_blocks(g_, plan_.max_depth, [&](const DepthBlock& block) {
      a_.prepare(m0, block, pairs_);
      const i64 rows = plan_.block_rows(g_, block.depth), step = plan_.copy_columns(g_, block.depth, rows);
      for (i64 n = 0; n < plan_.columns; n += step)
        multiply_columns(n0, n, min_of(step, plan_.columns - n), block, rows);
    });
    c_.finish();
  }

 private:
  /// Multiplies columns from n of the piece on, which are copied together, in blocks of `block_rows` rows.
  void multiply_columns(i64 n0, i64 n, i64 columns, const DepthBlock& block, i64 block_rows) {
    const i64 pairs = ceil_div(block.depth, 2);
    const bool is_copied_once = block.depth <= kMaxDepthCopied;
    if (is_copied_once) b_.copy(n0 + n, columns, block.first, block.depth, pairs_);
    const bool is_complete = is_copied_once && block.first == 0 && block.depth == g_.k;
    if (is_complete && multiply_to_bf16(n0 + n, columns, block)) return;
    const i64 done_rows = is_complete ? multiply_overlapped(n0 + n, columns, block.depth, block_rows) : 0;
    for (i64 i = done_rows; i < plan_.rows; i += block_rows) {
      for (i64 p = 0; p < columns; p += kPanelColumns) {
        const PairPanel panel{n0 + n + p, min_of(kPanelColumns, columns - p), b_.data() + p * pairs, c_.sums(n + p)};
        if (is_copied_once) {
          multiply_copied(i, min_of(i + block_rows, plan_.rows), panel, block);
        } else {
          multiply_in_parts(panel, block);
        }
      }
    }
  }

  /// Rows [first, end) by a panel whose depth is copied at once.
  void multiply_copied(i64 first, i64 end, const PairPanel& panel, const DepthBlock& block) {
    const int count = block.is_last ? c_.cut(panel.first, panel.count) : 0;
    for (i64 i = first; i < end; i += kBlockRows) {
      const i64 rows = min_of(kBlockRows, end - i);
      multiply(i, rows, panel, 0, block.depth, !block.is_first);
      if (block.is_last) c_.write(i, rows, panel, count);
    }
  }

  /// All rows by a panel whose depth is too large to be copied at once.
  void multiply_in_parts(const PairPanel& panel, const DepthBlock& block) {
    for (i64 k = 0; k < block.depth; k += kPanelDepth) {
      const i64 part = min_of(kPanelDepth, block.depth - k);
      b_.copy(panel.first, panel.count, block.first + k, part, pairs_);
      multiply(0, plan_.rows, panel, k, part, block.first + k > 0);
    }
    if (block.is_last) c_.write(0, plan_.rows, panel, c_.cut(panel.first, panel.count));
  }

  /// Multiplies `rows` rows of A by B's copy, which has depths [k, k + depth) of the block.
  void multiply(i64 row, i64 rows, const PairPanel& panel, i64 k, i64 depth, bool adds) {
    Micro m = micro(row, panel, k, depth);
    m.c = c_.sums(panel, row);
    m.c_row = plan_.sums_pitch * static_cast<i64>(sizeof(float));
    m.add = adds;
    multiply_rows(amx_, Dot::kBf16, rows, ceil_div(panel.count, kPairLanes), m);
  }

  /// The operands of rows from `row` on and of depths from k of the block on.
  Micro micro(i64 row, const PairPanel& panel, i64 k, i64 depth) const {
    return {.a = a_.at(row, k),
            .b = panel.b,
            .depth = ceil_div(depth, 2),
            .a_row = a_.row_stride(),
            .a_step = a_.pair_stride(),
            .b_step = ceil_div(panel.count, kPairLanes) * kVectorBytes};
  }

  /// By tile registers, for full blocks of rows: the sums of a block are rounded between the products of the next
  /// block. Returns how many rows are done.
  i64 multiply_overlapped(i64 column, i64 columns, i64 depth, i64 block_rows) {
    constexpr i64 kSums = kBlockRows * kPanelColumns;
    const i64 pairs = ceil_div(depth, 2), rows = plan_.rows / kBlockRows * kBlockRows;
    const AmxCut& cut = amx_.cut(pairs);
    if (!kHasAmx || rows == 0 || cut.rest > 0) return 0;
    Bfloat16* lines[kMaxCopyColumns / kPanelColumns];
    for (i64 p = 0; p < columns; p += kPanelColumns) {
      Bfloat16* const line = c_.plain_line(column + p, min_of(kPanelColumns, columns - p));
      if (line == nullptr) return 0;
      lines[p / kPanelColumns] = line;
    }
    amx_.begin_blocks(cut);
    static_assert(kBlockRows == kAmxBlock && kPanelColumns == 2 * kPairLanes);
    // Where panels do not write a line of C in sequence.
    const bool has_c_prefetch = block_rows > kBlockRows && !plan_.is_non_temporal;
    const i64 rows_per_call = ceil_div(kBlockRows, 2 * cut.parts), a_row = a_.row_stride();
    UnroundedBlock last{plan_.is_non_temporal};
    for (i64 first = 0; first < rows; first += block_rows) {
      for (i64 p = 0; p < columns; p += kPanelColumns) {
        const char* const b = reinterpret_cast<const char*>(b_.data() + p * pairs);
        const i64 width = min_of(kPanelColumns, columns - p);
        Bfloat16* const c = lines[p / kPanelColumns];
        for (i64 i = first; i < min_of(first + block_rows, rows); i += kBlockRows) {
          const char* const a = a_.at(i, 0);
          const i64* const offsets = c_.row_offsets() + i;
          for (i64 r = 0; has_c_prefetch && r < kBlockRows; ++r) __builtin_prefetch(c + offsets[r], 1, 3);
          float* const next = last.sums == c_.sums(0) ? c_.sums(0) + kSums : c_.sums(0);
          const auto meanwhile = [&]() __attribute__((always_inline)) { last.round(rows_per_call); };
          if (width > kPairLanes) {
            amx_.multiply_block<2>(a, a_row, b, reinterpret_cast<char*>(next), meanwhile);
          } else {
            amx_.multiply_block<1>(a, a_row, b, reinterpret_cast<char*>(next), meanwhile);
          }
          last.round(kBlockRows);
          last.sums = next;
          last.line = c;
          last.line_offsets = offsets;
          last.count = width;
          last.done = 0;
        }
      }
    }
    last.round(kBlockRows);
    return rows;
  }

  /// By vectors: a block of rows by all panels before the next, so that lines of C are written in order; the register
  /// tiles round their sums. Returns false where rows of C are not uniformly strided bf16.
  bool multiply_to_bf16(i64 column, i64 columns, const DepthBlock& block) {
    constexpr i64 kHeight = 2 * kMicroRows[2], kSteps = 32;
    if (kHasAmx || !is_uniformly_strided(g_.c.rows) || g_.c.dtype != DataType::kBFloat16) return false;
    PairPanel panels[kMaxCopyColumns / kPanelColumns];
    Bfloat16* lines[kMaxCopyColumns / kPanelColumns];
    const i64 pairs = ceil_div(block.depth, 2), count = ceil_div(columns, kPanelColumns);
    const i64 c_row = inner(g_.c.rows).stride;
    for (i64 p = 0; p < count; ++p) {
      panels[p] = {column + p * kPanelColumns, min_of(kPanelColumns, columns - p * kPanelColumns),
                   b_.data() + p * kPanelColumns * pairs, c_.sums(0)};
      lines[p] = c_.plain_line(panels[p].first, panels[p].count);
    }
    const i64 height = kHeight * ceil_div(kSteps, pairs);  // a call per tile would cost too much where depths are few
    for (i64 i = 0, rows; i < plan_.rows; i += rows) {
      rows = min_of(height, plan_.rows - i);
      for (i64 p = 0; p < count; ++p) {
        if (lines[p] == nullptr) {
          multiply_copied(i, i + rows, panels[p], block);
          continue;
        }
        Bfloat16* const c = lines[p] + c_.row_offsets()[i];
        const bool is_line_aligned = reinterpret_cast<std::uintptr_t>(c) % 64 == 0 && c_row % (64 / sizeof *c) == 0;
        Micro m = micro(i, panels[p], 0, block.depth);
        m.c = c;
        m.c_row = c_row * static_cast<i64>(sizeof *c);
        m.tail = static_cast<int>(panels[p].count % kPairLanes);
        m.is_c_bf16 = true;
        m.non_temporal = plan_.is_non_temporal && is_line_aligned && panels[p].count == kPanelColumns;
        multiply_rows(amx_, Dot::kBf16, rows, ceil_div(panels[p].count, kPairLanes), m);
      }
    }
    return true;
  }

  const Gemm& g_;
  const PairPlan& plan_;
  PairOperandA a_;
  PairOperandB b_;
  PairResult c_;
  LinePairs pairs_;
  Amx amx_;
};

TileShape gemm_tile(DataType type) {
  if (type != DataType::kBFloat16 || !has_pair_products())
    return POLYMIO_SHARED_NAMESPACE::entry_points<GemmKernels>().tile(type);
  return {kPanelColumns, kPanelColumns, kPairLanes, true, kHasAmx};
}

std::size_t gemm_scratch(const Gemm& g, i64 rows, i64 columns) {
  if (!is_by_pairs(g)) return POLYMIO_SHARED_NAMESPACE::entry_points<GemmKernels>().scratch(g, rows, columns);
  const PairPlan plan(g, rows, columns);
  Arena arena(nullptr);
  PairProduct(g, plan, arena);
  return arena.bytes();
}

void gemm(const Gemm& g, i64 m0, i64 m1, i64 n0, i64 n1, void* scratch) {
  if (!is_by_pairs(g)) return POLYMIO_SHARED_NAMESPACE::entry_points<GemmKernels>().run(g, m0, m1, n0, n1, scratch);
  const PairPlan plan(g, m1 - m0, n1 - n0);
  Arena arena(static_cast<char*>(scratch));
  PairProduct(g, plan, arena).run(m0, n0);
  if (g.epilogue) POLYMIO_SHARED_NAMESPACE::entry_points<EpilogueKernels>().run(*g.epilogue, m0, m1, n0, n1);
}

}  // namespace

template <>
const GemmKernels& entry_points<GemmKernels>() {
  static constexpr GemmKernels kKernels{.tile = gemm_tile, .scratch = gemm_scratch, .run = gemm};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
