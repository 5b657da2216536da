// Matrix products of bf16 by instructions that multiply bf16 pairs, two neighbouring depths (vdpbf16ps, AMX). A is
// read in place, or copied as rows of pairs or as pairs of rows; B is copied panel by panel. All other products are
// those of POLYMIO_SHARED_NAMESPACE.
// Instruction sets: only those that add dot products.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/caches.h"
#include "kernels/cpu/isa/copy_blocks.h"
#include "kernels/cpu/isa/dot_operands.h"
#include "kernels/cpu/isa/gemv_dot.h"
#include "kernels/cpu/isa/gemm_operands.h"
#include "kernels/cpu/isa/multiply_rows.h"
#include "kernels/cpu/isa/store_bf16.h"
#include "kernels/cpu/isa/gemv_axpy.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

using Operands = Vec<std::int32_t>;
constexpr i64 kPairLanes = kLanes<std::int32_t>;
constexpr i64 kPanelColumns = 2 * kPairLanes;
constexpr i64 kBlockRows = kPanelColumns;   // that are multiplied, and then written
constexpr i64 kMaxPanelsCopied = 4;         // at once, so that lines of B are read in long runs
constexpr i64 kMaxCopyColumns = 512;        // that are copied at once
constexpr i64 kFirstLevelBytes = 32 << 10;  // of B's copy that stays in the first-level cache beside a block of rows
constexpr i64 kPanelDepth = 512;            // a panel of this depth stays in the first-level cache
constexpr i64 kPairsOfB = kMaxPanelsCopied * kPanelDepth / 2 * kPanelColumns;  // of B's copy
constexpr i64 kMaxDepthCopied = kHasAmx ? kPanelDepth : 4 * kPanelDepth;       // of B at once
constexpr i64 kMaxDepthInPlace = 8 * kPanelDepth;                              // of A
constexpr i64 kMaxElementsOfA = 512 * 1024;                                    // of A's copy

bool has_pair_products() { return kHasAmx || prefers_bf16_dot(); }

bool is_by_pairs(const Gemm& g) {
  constexpr DataType kType = DataType::kBFloat16;
  const bool is_gemv = is_gemv_dot(g) || is_gemv_axpy(g);  // these read their operands once, in place
  return g.a.dtype == kType && g.b.dtype == kType && g.c.gap == 0 && g.k > 0 && has_pair_products() && !is_gemv;
}

/// A piece of C.
class PairProduct {
 public:
  /// Carves its memory from base; with null it only counts bytes.
  PairProduct(const Gemm& g, i64 rows, i64 columns, char* base) : g_(g), rows_(rows), columns_(columns) {
    const bool is_even = depth_run_ > 0 ? depth_run_ % 2 == 0 : g.k % 2 == 0;
    const bool is_strided_by_rows = is_uniformly_strided(g.a.lanes) && inner(g.a.depth).stride == 1 && !is_bounded(g.a);
    has_in_place_a_ = is_even && is_strided_by_rows && (depth_run_ > 0 || is_uniformly_strided(g.a.depth));
    const i64 max_depth =
        has_in_place_a_ ? kMaxDepthInPlace
                        : round_up(min_of(max_of(kMaxElementsOfA / rows, kPanelDepth), kMaxDepthInPlace), kPanelDepth);
    max_depth_ = min_of(round_up(g.k, 2), max_depth);
    const bool has_partial_sums = g.k > max_depth_ || (depth_run_ > 0 && depth_run_ < g.k);
    sums_pitch_ = has_partial_sums ? pitch_of<float>(columns) : kPanelColumns;
    a_pitch_ = pitch_of<float>(max_depth_ / 2);
    const i64 copied =
        kHasAmx ? a_pitch_ * round_up(rows, kPairLanes) : max_of(a_pitch_ * rows, max_depth_ / 2 * a_pair_pitch_);
    a_ = take<std::int32_t>(base, has_in_place_a_ ? 0 : copied);
    b_ = take<std::int32_t>(base, kPairsOfB);
    sums_ = take<float>(base, max_of(rows, 2 * kBlockRows) * sums_pitch_);
    line_buffer_pitch_ = max_of(round_up(rows, kPairLanes), max_of(kMaxDepthCopied, kMaxCopyColumns));
    line_buffers_ =
        take<Bfloat16>(base, (has_in_place_a_ || !kHasAmx ? kPairLanes : 2 * kPairLanes) * line_buffer_pitch_);
    runs_ = take<Run>(base, max_of(max_of(kMaxCopyColumns, max_depth_), rows) + 1);
    column_runs_ = take<Run>(base, kPanelColumns + 1);
    row_offsets_ = take<i64>(base, rows);
  }
  std::size_t bytes() const { return bytes_; }

  void run(i64 m0, i64 n0) {
    find_row_offsets(g_, m0, rows_, row_offsets_);
    for (i64 k0 = 0, depth; k0 < g_.k; k0 += depth) {
      depth = min_of(max_depth_, g_.k - k0);
      if (depth_run_ > 0) depth = min_of(depth, depth_run_ - k0 % depth_run_);
      prepare_a(m0, k0, depth);
      const bool is_b_row_major = run_cost(g_.b.lanes) <= run_cost(g_.b.depth);
      const bool is_copied_once = depth <= kMaxDepthCopied;
      const i64 block = block_rows(depth), pairs = ceil_div(depth, 2);
      const i64 fitting_columns = min_of(kPairsOfB / pairs / kPanelColumns * kPanelColumns, kMaxCopyColumns);
      const i64 max_columns = block < rows_ || !kHasAmx ? fitting_columns : kMaxPanelsCopied * kPanelColumns;
      const i64 copy_columns = is_copied_once && (is_b_row_major || block < rows_) ? max_columns : kPanelColumns;
      for (i64 n = 0; n < columns_; n += copy_columns) {
        const i64 columns = min_of(copy_columns, columns_ - n);
        if (is_copied_once) copy_b(n0 + n, columns, k0, depth);
        const bool is_complete = is_copied_once && k0 == 0 && depth == g_.k;
        if (is_complete && multiply_to_bf16(n0 + n, columns, depth)) continue;
        const i64 done_rows = is_complete ? multiply_overlapped(n0 + n, columns, depth, block) : 0;
        for (i64 i = done_rows; i < rows_; i += block) {
          for (i64 p = 0; p < columns; p += kPanelColumns) {
            const Columns panel{n0 + n + p, min_of(kPanelColumns, columns - p), b_ + p * pairs,
                                sums_ + (sums_pitch_ == kPanelColumns ? 0 : n + p)};
            if (is_copied_once) {
              multiply_copied(i, min_of(i + block, rows_), panel, k0, depth);
            } else {
              multiply_in_parts(panel, k0, depth);
            }
          }
        }
      }
    }
    if (is_non_temporal_) _mm_sfence();  // other threads read the result when they see that the task is done
  }

 private:
  template <class U>
  U* take(char* base, i64 count) {
    char* const address = base == nullptr ? nullptr : base + bytes_;
    bytes_ += static_cast<std::size_t>(round_up(count * static_cast<i64>(sizeof(U)), 64));
    return reinterpret_cast<U*>(address);
  }

  /// Two lines of neighbouring depths; line[1] is null past the last depth and counts as zeros.
  struct Pair {
    const Bfloat16* line[2];
  };
  static Operands operands(const Pair& pair, i64 first, i64 count) {
    return interleave_pairs(pair.line[0] + first, pair.line[1] != nullptr ? pair.line[1] + first : nullptr, count);
  }

  /// A panel: its columns, its copy of B and its sums.
  struct Columns {
    i64 first, count;
    const std::int32_t* b;
    float* sums;
  };

  /// Rows that are multiplied by all panels before the next rows: kBlockRows if B's copy stays in the first-level
  /// cache, as many rows as fit 16 KiB if A is read in place, else all.
  i64 block_rows(i64 depth) const {
    constexpr i64 kBytes = 16 << 10;
    const i64 line = depth * static_cast<i64>(sizeof(Bfloat16));
    const i64 block = line * columns_ <= kFirstLevelBytes ? kBlockRows : kBytes / line / kBlockRows * kBlockRows;
    const bool is_c_contiguous = is_uniformly_strided(g_.c.columns) && inner(g_.c.columns).stride == 1;
    return has_in_place_a_ && is_c_contiguous && block > 0 && 2 * block < rows_ ? block : rows_;
  }

  /// Rows [first, end) by a panel whose depth is copied at once.
  void multiply_copied(i64 first, i64 end, const Columns& columns, i64 k0, i64 depth) {
    const bool is_last_block = k0 + depth == g_.k;
    const int count =
        is_last_block ? cut_runs(g_.c.columns, columns.first, static_cast<int>(columns.count), column_runs_) : 0;
    for (i64 i = first; i < end; i += kBlockRows) {
      const i64 rows = min_of(kBlockRows, end - i);
      multiply(i, rows, columns, k0, 0, depth);
      if (is_last_block) write(i, rows, columns, count);
    }
  }

  /// Whether C of a panel, of `count` runs, is bf16 lines of unscaled sums.
  bool is_plain_bf16(int count) const {
    return count == 1 && inner(g_.c.columns).stride == 1 && g_.c.dtype == DataType::kBFloat16 && g_.alpha == 1 &&
           g_.beta == 0;
  }

  /// By tile registers, for full blocks of rows: the sums of a block are rounded between the products of the next
  /// block. Returns how many rows are done.
  i64 multiply_overlapped(i64 column, i64 columns, i64 depth, i64 block) {
    const i64 pairs = ceil_div(depth, 2), rows = rows_ / kBlockRows * kBlockRows;
    const AmxCut& cut = amx_.cut(pairs);
    if (!kHasAmx || rows == 0 || cut.rest > 0) return 0;
    Bfloat16* lines[kMaxCopyColumns / kPanelColumns];
    for (i64 p = 0; p < columns; p += kPanelColumns) {
      const i64 count = min_of(kPanelColumns, columns - p);
      if (!is_plain_bf16(cut_runs(g_.c.columns, column + p, static_cast<int>(count), column_runs_))) return 0;
      lines[p / kPanelColumns] = static_cast<Bfloat16*>(g_.c.data) + column_runs_[0].offset;
    }
    amx_.begin_blocks(cut);
    constexpr i64 kSums = kBlockRows * kPanelColumns;
    static_assert(kBlockRows == kAmxBlock && kPanelColumns == 2 * kPairLanes);
    const bool has_c_prefetch = block > kBlockRows && !is_non_temporal_;  // panels do not write a line in sequence
    const i64 rows_per_call = ceil_div(kBlockRows, 2 * cut.parts), a_row = a_row_stride_;
    // The block to be rounded: its rows from `done` on.
    const float* sums = nullptr;
    Bfloat16* line = nullptr;
    const i64* line_offsets = nullptr;
    i64 count = 0, done = kBlockRows;
    const auto round = [&](i64 number) __attribute__((always_inline)) {
      const i64 end = min_of(done + number, kBlockRows);
      if (count == kPanelColumns && !is_non_temporal_) {
        for (; done < end; ++done) store_bf16_panel(sums + done * kPanelColumns, line + line_offsets[done]);
      } else {
        for (; done < end; ++done)
          store_bf16_line(sums + done * kPanelColumns, count, line + line_offsets[done], is_non_temporal_);
      }
    };
    for (i64 first = 0; first < rows; first += block) {
      for (i64 p = 0; p < columns; p += kPanelColumns) {
        const char* const b = reinterpret_cast<const char*>(b_ + p * pairs);
        const i64 width = min_of(kPanelColumns, columns - p);
        for (i64 i = first; i < min_of(first + block, rows); i += kBlockRows) {
          const char* const a = a_rows_ + i * a_row;
          Bfloat16* const c = lines[p / kPanelColumns];
          if (has_c_prefetch)
            for (i64 r = i; r < i + kBlockRows; ++r) __builtin_prefetch(c + row_offsets_[r], 1, 3);
          float* const next = sums == sums_ ? sums_ + kSums : sums_;
          const auto meanwhile = [&]() __attribute__((always_inline)) { round(rows_per_call); };
          if (width > kPairLanes) {
            amx_.multiply_block<2>(a, a_row, b, reinterpret_cast<char*>(next), meanwhile);
          } else {
            amx_.multiply_block<1>(a, a_row, b, reinterpret_cast<char*>(next), meanwhile);
          }
          round(kBlockRows);
          sums = next;
          line = c;
          line_offsets = row_offsets_ + i;
          count = width;
          done = 0;
        }
      }
    }
    round(kBlockRows);
    return rows;
  }

  /// By vectors: a block of rows by all panels before the next, so that lines of C are written in order; the register
  /// tiles round their sums. Returns false where rows of C are not uniformly strided bf16.
  bool multiply_to_bf16(i64 column, i64 columns, i64 depth) {
    constexpr i64 kHeight = 2 * kMicroRows[2], kSteps = 32;
    if (kHasAmx || !is_uniformly_strided(g_.c.rows) || g_.c.dtype != DataType::kBFloat16) return false;
    Columns panels[kMaxCopyColumns / kPanelColumns];
    Bfloat16* lines[kMaxCopyColumns / kPanelColumns];
    const i64 pairs = ceil_div(depth, 2), count = ceil_div(columns, kPanelColumns), c_row = inner(g_.c.rows).stride;
    for (i64 p = 0; p < count; ++p) {
      panels[p] = {column + p * kPanelColumns, min_of(kPanelColumns, columns - p * kPanelColumns),
                   b_ + p * kPanelColumns * pairs, sums_};
      const int runs = cut_runs(g_.c.columns, panels[p].first, static_cast<int>(panels[p].count), column_runs_);
      lines[p] = is_plain_bf16(runs) ? static_cast<Bfloat16*>(g_.c.data) + column_runs_[0].offset : nullptr;
    }
    const i64 block = kHeight * ceil_div(kSteps, pairs);  // a call per tile would cost too much where depths are few
    for (i64 i = 0, rows; i < rows_; i += rows) {
      rows = min_of(block, rows_ - i);
      for (i64 p = 0; p < count; ++p) {
        if (lines[p] == nullptr) {
          multiply_copied(i, i + rows, panels[p], 0, depth);
          continue;
        }
        Bfloat16* const c = lines[p] + row_offsets_[i];
        const bool is_line_aligned = reinterpret_cast<std::uintptr_t>(c) % 64 == 0 && c_row % (64 / sizeof *c) == 0;
        Micro m = micro(i, panels[p], 0, depth);
        m.c = c;
        m.c_row = c_row * static_cast<i64>(sizeof *c);
        m.tail = static_cast<int>(panels[p].count % kPairLanes);
        m.is_c_bf16 = true;
        m.non_temporal = is_non_temporal_ && is_line_aligned && panels[p].count == kPanelColumns;
        multiply_rows(amx_, Dot::kBf16, rows, ceil_div(panels[p].count, kPairLanes), m);
      }
    }
    return true;
  }

  /// All rows by a panel whose depth is too large to be copied at once.
  void multiply_in_parts(const Columns& columns, i64 k0, i64 depth) {
    for (i64 k = 0; k < depth; k += kPanelDepth) {
      const i64 part = min_of(kPanelDepth, depth - k);
      copy_b(columns.first, columns.count, k0 + k, part);
      multiply(0, rows_, columns, k0, k, part);
    }
    if (k0 + depth < g_.k) return;
    write(0, rows_, columns, cut_runs(g_.c.columns, columns.first, static_cast<int>(columns.count), column_runs_));
  }

  void prepare_a(i64 m0, i64 k0, i64 depth) {
    const Operand& a = g_.a;
    if (has_in_place_a_) {
      const i64 offset = a.offset + m0 * inner(a.lanes).stride + seek(a.depth, k0).offset;
      a_rows_ = reinterpret_cast<const char*>(static_cast<const Bfloat16*>(a.data) + offset);
      a_row_stride_ = inner(a.lanes).stride * static_cast<i64>(sizeof(Bfloat16));
      return;
    }
    a_rows_ = reinterpret_cast<const char*>(a_);
    a_row_stride_ = a_pitch_ * static_cast<i64>(sizeof(std::int32_t));
    if (run_cost(a.depth) <= run_cost(a.lanes)) {
      const Bf16Lines lines(a, a.depth, k0, depth, runs_);
      Cursor cursor = seek(a.lanes, m0);
      for (i64 i = 0; i < rows_; ++i, step(cursor, a.lanes))
        lines.copy(cursor, round_up(depth, 2), reinterpret_cast<Bfloat16*>(a_ + i * a_pitch_));
      return;
    }
    kHasAmx ? transpose_a(m0, k0, depth) : interleave_a(m0, k0, depth);
  }

  /// A whose rows are contiguous, for vectors: a_[pair][row].
  void interleave_a(i64 m0, i64 k0, i64 depth) {
    const Operand& a = g_.a;
    const Bf16Lines lines(a, a.lanes, m0, rows_, runs_);
    each_pair(lines, a.depth, k0, depth, rows_, [&](i64 p, const Pair& pair) {
      for (i64 row = 0; row < rows_; row += kPairLanes) {
        store(a_ + p * a_pair_pitch_ + row, operands(pair, row, min_of(kPairLanes, rows_ - row)));
      }
    });
    a_row_stride_ = sizeof(std::int32_t);
    a_pair_stride_ = a_pair_pitch_ * a_row_stride_;
  }

  /// A whose rows are contiguous, for tile registers: a_[row][pair], by transposed blocks of kPairLanes x kPairLanes
  /// pairs.
  void transpose_a(i64 m0, i64 k0, i64 depth) {
    const Operand& a = g_.a;
    const Bf16Lines lines(a, a.lanes, m0, rows_, runs_);
    Cursor cursor = seek(a.depth, k0);
    for (i64 k = 0; k < depth; k += 2 * kPairLanes) {
      Pair pairs[kPairLanes];
      const i64 high = min_of(kPairLanes, ceil_div(depth - k, 2));
      for (i64 p = 0; p < high; ++p) pairs[p] = next_pair(lines, a.depth, cursor, depth - k - 2 * p, rows_, 2 * p);
      for (i64 row = 0; row < rows_; row += kPairLanes) {
        const i64 some = min_of(kPairLanes, rows_ - row);
        Operands block[kPairLanes] = {};
        for (i64 p = 0; p < high; ++p) block[p] = operands(pairs[p], row, some);
        transpose(block);
        for (i64 j = 0; j < some; ++j) store(a_ + (row + j) * a_pitch_ + k / 2, block[j]);
      }
    }
  }

  /// The next two lines of the `left` ones, or the last one. Bf16Lines that are not contiguous are copied to line
  /// buffers `buffers` and `buffers` + 1.
  Pair next_pair(const Bf16Lines& lines, const Axis& axis, Cursor& cursor, i64 left, i64 length, i64 buffers = 0) {
    Pair pair{};
    for (int i = 0; i < min_of<i64>(left, 2); ++i, step(cursor, axis)) {
      Bfloat16* const buffer = line_buffers_ + (buffers + i) * line_buffer_pitch_;
      if (!lines.is_contiguous()) lines.copy(cursor, length, buffer);
      pair.line[i] = lines.is_contiguous() ? lines.address(cursor) : buffer;
    }
    return pair;
  }

  /// Calls use(index, pair) for each pair of lines of depths [k0, k0 + depth).
  template <class Use>
  void each_pair(const Bf16Lines& lines, const Axis& axis, i64 k0, i64 depth, i64 length, const Use& use) {
    Cursor cursor = seek(axis, k0);
    const i64 pairs = ceil_div(depth, 2);
    if (!lines.is_contiguous() || !is_uniformly_strided(axis)) {
      for (i64 p = 0; p < pairs; ++p) use(p, next_pair(lines, axis, cursor, depth - 2 * p, length));
      return;
    }
    const i64 stride = inner(axis).stride;
    const Bfloat16* line = lines.address(cursor);
    for (i64 p = 0; p < pairs; ++p, line += 2 * stride)
      use(p, Pair{{line, 2 * p + 1 < depth ? line + stride : nullptr}});
  }

  /// Copies columns of B: b_[panel][pair][column of the panel].
  void copy_b(i64 column, i64 columns, i64 k0, i64 depth) {
    const Operand& b = g_.b;
    if (run_cost(b.lanes) <= run_cost(b.depth)) return interleave_b(column, columns, k0, depth);
    const i64 pairs = ceil_div(depth, 2);
    for (i64 n = 0; n < columns; n += kPairLanes) {
      const i64 panel = n / kPanelColumns * kPanelColumns,
                width = round_up(min_of(kPanelColumns, columns - panel), kPairLanes);
      transpose_b(column + n, columns - n, k0, depth, b_ + panel * pairs + n - panel, width);
    }
  }

  /// Adds the product of `rows` rows of A and of B's copy, which has depths [k0 + k, k0 + k + depth), to the sums.
  void multiply(i64 row, i64 rows, const Columns& columns, i64 k0, i64 k, i64 depth) {
    Micro m = micro(row, columns, k, depth);
    m.c = sums_of(columns, row);
    m.c_row = sums_pitch_ * static_cast<i64>(sizeof(float));
    m.add = k0 + k > 0;
    multiply_rows(amx_, Dot::kBf16, rows, ceil_div(columns.count, kPairLanes), m);
  }

  /// The operands of rows from `row` on and of depths from k of the block on.
  Micro micro(i64 row, const Columns& columns, i64 k, i64 depth) const {
    return {.a = a_rows_ + row * a_row_stride_ + k / 2 * a_pair_stride_,
            .b = columns.b,
            .depth = ceil_div(depth, 2),
            .a_row = a_row_stride_,
            .a_step = a_pair_stride_,
            .b_step = ceil_div(columns.count, kPairLanes) * kVectorBytes};
  }

  /// Without partial sums all blocks of rows share the same memory.
  float* sums_of(const Columns& columns, i64 row) const {
    return columns.sums + (sums_pitch_ == kPanelColumns ? 0 : row * sums_pitch_);
  }

  /// B whose columns are contiguous.
  void interleave_b(i64 column, i64 columns, i64 k0, i64 depth) {
    const Operand& b = g_.b;
    const Bf16Lines lines(b, b.lanes, column, columns, runs_);
    const i64 pairs = ceil_div(depth, 2);
    each_pair(lines, b.depth, k0, depth, columns, [&](i64 p, const Pair& pair) {
      for (i64 panel = 0; panel < columns; panel += kPanelColumns) {
        const i64 end = min_of(panel + kPanelColumns, columns), width = round_up(end - panel, kPairLanes);
        std::int32_t* to = b_ + panel * pairs + p * width;
        for (i64 n = panel; n < end; n += kPairLanes, to += kPairLanes)
          store(to, operands(pair, n, min_of(kPairLanes, end - n)));
      }
    });
  }

  /// B whose depths are contiguous: up to a vector of columns.
  void transpose_b(i64 column, i64 columns, i64 k0, i64 depth, std::int32_t* to, i64 pitch) {
    const Operand& b = g_.b;
    const i64 some = min_of(kPairLanes, columns), pairs = ceil_div(depth, 2);
    const Bf16Lines lines(b, b.depth, k0, depth, runs_);
    const bool is_contiguous = lines.is_contiguous() && depth % 2 == 0;
    const std::int32_t* source[kPairLanes];
    Cursor cursor = seek(b.lanes, column);
    for (i64 j = 0; j < some; ++j, step(cursor, b.lanes)) {
      Bfloat16* const buffer = line_buffers_ + j * line_buffer_pitch_;
      if (!is_contiguous) lines.copy(cursor, 2 * pairs, buffer);
      source[j] = reinterpret_cast<const std::int32_t*>(is_contiguous ? lines.address(cursor) : buffer);
    }
    for (i64 p = 0; p < pairs; p += kPairLanes) {
      const int high = static_cast<int>(min_of(kPairLanes, pairs - p));
      Operands block[kPairLanes] = {};
      for (i64 j = 0; j < some; ++j) block[j] = load_lanes(source[j] + p, 0, high);
      transpose(block);
      for (i64 i = 0; i < high; ++i, to += pitch) store(to, block[i]);
    }
  }

  /// Writes finished sums of `rows` rows to C, of `count` runs.
  void write(i64 row, i64 rows, const Columns& columns, int count) {
    const i64 stride = inner(g_.c.columns).stride;
    const i64* const to = row_offsets_ + row;
    const float* sums = sums_of(columns, row);
    if (is_plain_bf16(count)) {
      Bfloat16* const c = static_cast<Bfloat16*>(g_.c.data) + column_runs_[0].offset;
      const bool is_full_panel = columns.count == kPanelColumns && !is_non_temporal_;
      for (i64 i = 0; is_full_panel && i < rows; ++i) store_bf16_panel(sums + i * sums_pitch_, c + to[i]);
      for (i64 i = 0; !is_full_panel && i < rows; ++i)
        store_bf16_line(sums + i * sums_pitch_, columns.count, c + to[i], is_non_temporal_);
      return;
    }
    const auto alpha = static_cast<float>(g_.alpha), beta = static_cast<float>(g_.beta);
    with_storage<float>(g_.c.dtype, [&](auto* s) {
      auto* const c = static_cast<decltype(s)>(g_.c.data);
      for (i64 i = 0; i < rows; ++i)
        write_runs(c + to[i], stride, column_runs_, count, sums + i * sums_pitch_, alpha, beta);
    });
  }

  // The piece and its blocking.
  const Gemm& g_;
  const i64 rows_, columns_, a_pair_pitch_ = pitch_of<float>(rows_);  // pairs from pair to pair of a_[pair][row]
  const i64 depth_run_ = is_uniformly_strided(g_.a.depth) && is_uniformly_strided(g_.b.depth) ? 0 : depth_run(g_);
  bool has_in_place_a_;
  // Non-temporal stores pay from fewer bytes on where lines of C are not contiguous.
  const bool is_non_temporal_ = g_.m * g_.n * static_cast<i64>(sizeof(Bfloat16)) >
                                (is_uniformly_strided(g_.c.columns) ? kResultCaches : kResultCaches / 2);
  i64 max_depth_;                                 // of a block of depth
  i64 sums_pitch_, a_pitch_, line_buffer_pitch_;  // elements from row to row; a_pitch_: of a_[row][pair], in pairs

  // Rows of A for the block of depth at hand.
  i64 a_row_stride_ = 0, a_pair_stride_ = sizeof(std::int32_t);  // from row to row, from pair to pair
  const char* a_rows_ = nullptr;

  // Scratch memory.
  std::int32_t *a_, *b_;  // copies
  float* sums_;
  Bfloat16* line_buffers_;
  Run *runs_, *column_runs_;
  i64* row_offsets_;  // of C, in elements
  Amx amx_;
  std::size_t bytes_ = 0;
};

TileShape gemm_tile(DataType type) {
  if (type != DataType::kBFloat16 || !has_pair_products())
    return POLYMIO_SHARED_NAMESPACE::entry_points<GemmKernels>().tile(type);
  return {kPanelColumns, kPanelColumns, kPairLanes, true, kHasAmx};
}

std::size_t gemm_scratch(const Gemm& g, i64 rows, i64 columns) {
  return is_by_pairs(g) ? PairProduct(g, rows, columns, nullptr).bytes()
                        : POLYMIO_SHARED_NAMESPACE::entry_points<GemmKernels>().scratch(g, rows, columns);
}

void gemm(const Gemm& g, i64 m0, i64 m1, i64 n0, i64 n1, void* scratch) {
  if (!is_by_pairs(g)) return POLYMIO_SHARED_NAMESPACE::entry_points<GemmKernels>().run(g, m0, m1, n0, n1, scratch);
  PairProduct(g, m1 - m0, n1 - n0, static_cast<char*>(scratch)).run(m0, n0);
}

}  // namespace

template <>
const GemmKernels& entry_points<GemmKernels>() {
  static constexpr GemmKernels kKernels{.tile = gemm_tile, .scratch = gemm_scratch, .run = gemm};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
