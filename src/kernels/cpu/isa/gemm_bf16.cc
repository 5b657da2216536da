// Products of bf16 matrices where an instruction set multiplies pairs of neighbouring depths: A lies in place or is
// copied, row by row or pair by pair, B panel by panel. All other products are those of the instruction set that is
// added to.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/caches.h"
#include "kernels/cpu/isa/amx.h"
#include "kernels/cpu/isa/copy_blocks.h"
#include "kernels/cpu/isa/dot_operands.h"
#include "kernels/cpu/isa/gemv_dot.h"
#include "kernels/cpu/isa/entry_points.h"
#include "kernels/cpu/isa/gemm_operands.h"
#include "kernels/cpu/isa/store_bf16.h"
#include "kernels/cpu/isa/gemv_axpy.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

using Operands = Vec<std::int32_t>;
constexpr i64 kPairLanes = kLanes<std::int32_t>;
constexpr i64 kPanel = 2 * kPairLanes;  // columns
constexpr i64 kTogether = 4;            // panels whose columns are copied at once, in long lines
constexpr i64 kRows = kPanel;           // multiplied, and written
constexpr i64 kNearBytes = 32 << 10;    // of B's copy that stays in the first-level cache beside some rows
constexpr i64 kDepth = 512;             // of B's copy: a panel of it stays in the first-level cache
constexpr i64 kCopiedPairs = kTogether * kDepth / 2 * kPanel;
constexpr i64 kMostColumns = 512;                      // that are copied at once
constexpr i64 kWhole = kHasAmx ? kDepth : 4 * kDepth;  // that is copied at once
constexpr i64 kMostDepth = 8 * kDepth;                 // of A in place
constexpr i64 kCopied = 512 * 1024;                    // elements of A's copy

bool has_pairs() { return kHasAmx || prefers_bf16_dot(); }

bool is_pairs(const Gemm& g) {
  constexpr DataType kType = DataType::kBFloat16;
  const bool is_gemv = is_dots(g) || is_scaled_lines(g);  // is read once where it is
  return g.a.dtype == kType && g.b.dtype == kType && g.c.gap == 0 && g.k > 0 && has_pairs() && !is_gemv;
}

/// Lines of an operand along one of its axes.
class Lines {
 public:
  Lines(const Operand& operand, const Axis& along, i64 first, i64 count, Run* runs)
      : operand_(operand), level_(inner(along)), bounded_(is_bounded(operand)), length_(count), runs_(runs) {
    count_ = cut_runs(along, first, static_cast<int>(count), runs);
  }
  /// Whether a line is elements side by side.
  bool plain() const { return count_ == 1 && !bounded_ && level_.stride == 1; }
  const Bfloat16* place(const Cursor& at) const {
    return static_cast<const Bfloat16*>(operand_.data) + line_at(operand_, at).offset + runs_[0].offset;
  }
  /// Copies a line, with zeros where it is out of bounds and up to `padded`.
  void fetch(const Cursor& at, i64 padded, Bfloat16* to) const {
    const Line line = line_at(operand_, at);
    const Bfloat16* const data = static_cast<const Bfloat16*>(operand_.data) + line.offset;
    Bfloat16* const start = to;
    for (int r = 0; r < count_; ++r) {
      const Run& run = runs_[r];
      int low = 0, high = run.length;
      if (bounded_) visible(operand_, level_, line, run, low, high);
      const Bfloat16* const from = data + run.offset;
      for (int e = 0; e < low; ++e) to[e] = {};
      if (level_.stride == 1) {
        __builtin_memcpy(to + low, from + low, static_cast<std::size_t>(high - low) * sizeof(Bfloat16));
      } else {
        for (int e = low; e < high; ++e) to[e] = from[e * level_.stride];
      }
      for (int e = high; e < run.length; ++e) to[e] = {};
      to += run.length;
    }
    for (i64 e = length_; e < padded; ++e) start[e] = {};
  }

 private:
  const Operand& operand_;
  const Level& level_;
  bool bounded_;
  i64 length_;
  Run* runs_;
  int count_;
};

/// A piece of C.
class PairProduct {
 public:
  /// Carves its memory from base; with null it only counts bytes.
  PairProduct(const Gemm& g, i64 rows, i64 columns, char* base) : g_(g), rows_(rows), columns_(columns) {
    const bool even = run_ > 0 ? run_ % 2 == 0 : g.k % 2 == 0;
    const bool spaced = is_single(g.a.lanes) && inner(g.a.depth).stride == 1 && !is_bounded(g.a);
    in_place_ = even && spaced && (run_ > 0 || is_single(g.a.depth));
    const i64 most = in_place_ ? kMostDepth : round_up(min_of(max_of(kCopied / rows, kDepth), kMostDepth), kDepth);
    step_ = min_of(round_up(g.k, 2), most);
    const bool keeps = g.k > step_ || (run_ > 0 && run_ < g.k);
    pitch_ = keeps ? pitch_of<float>(columns) : kPanel;
    a_pitch_ = pitch_of<float>(step_ / 2);
    const i64 copied =
        kHasAmx ? round_up(rows, kPairLanes) * a_pitch_ : max_of(rows * a_pitch_, step_ / 2 * pair_pitch_);
    a_ = take<std::int32_t>(base, in_place_ ? 0 : copied);
    b_ = take<std::int32_t>(base, kCopiedPairs);
    sums_ = take<float>(base, max_of(rows, 2 * kRows) * pitch_);
    line_pitch_ = max_of(round_up(rows, kPairLanes), max_of(kWhole, kMostColumns));
    line_ = take<Bfloat16>(base, (in_place_ || !kHasAmx ? kPairLanes : 2 * kPairLanes) * line_pitch_);
    runs_ = take<Run>(base, max_of(max_of(kMostColumns, step_), rows) + 1);
    column_runs_ = take<Run>(base, kPanel + 1);
    row_offset_ = take<i64>(base, rows);
  }
  std::size_t bytes() const { return bytes_; }

  void run(i64 m0, i64 n0) {
    place_rows(g_, m0, rows_, row_offset_);
    for (i64 k0 = 0, depth; k0 < g_.k; k0 += depth) {
      depth = min_of(step_, g_.k - k0);
      if (run_ > 0) depth = min_of(depth, run_ - k0 % run_);
      place_a(m0, k0, depth);
      const bool lines = run_cost(g_.b.lanes) <= run_cost(g_.b.depth), few = depth <= kWhole;
      const i64 block = row_block(depth), pairs = ceil_div(depth, 2);
      const i64 fits = min_of(kCopiedPairs / pairs / kPanel * kPanel, kMostColumns);
      const i64 most = block < rows_ || !kHasAmx ? fits : kTogether * kPanel;
      const i64 together = few && (lines || block < rows_) ? most : kPanel;
      for (i64 n = 0; n < columns_; n += together) {
        const i64 columns = min_of(together, columns_ - n);
        if (few) copy_b(n0 + n, columns, k0, depth);
        const bool whole = few && k0 == 0 && depth == g_.k;
        if (whole && round_tiles(n0 + n, columns, depth)) continue;
        const i64 streamed = whole ? stream(n0 + n, columns, depth, block) : 0;
        for (i64 i = streamed; i < rows_; i += block) {
          for (i64 p = 0; p < columns; p += kPanel) {
            const Columns some{n0 + n + p, min_of(kPanel, columns - p), b_ + p * pairs,
                               sums_ + (pitch_ == kPanel ? 0 : n + p)};
            few ? row_by_row(i, min_of(i + block, rows_), some, k0, depth) : part_by_part(some, k0, depth);
          }
        }
      }
    }
    if (non_temporal_) _mm_sfence();  // other threads read the result when they see that the task is done
  }

 private:
  template <class U>
  U* take(char* base, i64 count) {
    char* const place = base == nullptr ? nullptr : base + bytes_;
    bytes_ += static_cast<std::size_t>(round_up(count * static_cast<i64>(sizeof(U)), 64));
    return reinterpret_cast<U*>(place);
  }

  /// Two lines, or one and zeros.
  struct Pair {
    const Bfloat16* line[2];
  };
  static Operands operands(const Pair& pair, i64 first, i64 count) {
    return interleave_pairs(pair.line[0] + first, pair.line[1] != nullptr ? pair.line[1] + first : nullptr, count);
  }

  /// A panel: its first column and how many, the copy of B, and its sums.
  struct Columns {
    i64 first, count;
    const std::int32_t* b;
    float* sums;
  };

  /// Rows that all panels take in turn: a few if B's copy stays in the first-level cache, so many that A in place does,
  /// or all.
  i64 row_block(i64 depth) const {
    constexpr i64 kBytes = 16 << 10;
    const i64 line = depth * static_cast<i64>(sizeof(Bfloat16));
    const i64 block = line * columns_ <= kNearBytes ? kRows : kBytes / line / kRows * kRows;
    const bool last = is_single(g_.c.columns) && inner(g_.c.columns).stride == 1;
    return in_place_ && last && block > 0 && 2 * block < rows_ ? block : rows_;
  }

  /// All of the depth has been copied.
  void row_by_row(i64 first, i64 end, const Columns& columns, i64 k0, i64 depth) {
    const bool last = k0 + depth == g_.k;
    const int count = last ? cut_runs(g_.c.columns, columns.first, static_cast<int>(columns.count), column_runs_) : 0;
    for (i64 i = first; i < end; i += kRows) {
      const i64 rows = min_of(kRows, end - i);
      multiply(i, rows, columns, k0, 0, depth);
      if (last) write(i, rows, columns, count);
    }
  }

  /// Whether sums of a panel are rounded as they are, to lines.
  bool is_line(int count) const {
    return count == 1 && inner(g_.c.columns).stride == 1 && g_.c.dtype == DataType::kBFloat16 && g_.alpha == 1 &&
           g_.beta == 0;
  }

  /// By tile registers, whole blocks of rows: each is multiplied while the one before is rounded. Returns how many rows
  /// are done.
  i64 stream(i64 column, i64 columns, i64 depth, i64 block) {
    const i64 pairs = ceil_div(depth, 2), rows = rows_ / kRows * kRows;
    const AmxCut& cut = amx_.cut(pairs);
    if (!kHasAmx || rows == 0 || cut.rest > 0) return 0;
    Bfloat16* lines[kMostColumns / kPanel];
    for (i64 p = 0; p < columns; p += kPanel) {
      const i64 count = min_of(kPanel, columns - p);
      if (!is_line(cut_runs(g_.c.columns, column + p, static_cast<int>(count), column_runs_))) return 0;
      lines[p / kPanel] = static_cast<Bfloat16*>(g_.c.data) + column_runs_[0].offset;
    }
    amx_.begin_blocks(cut);
    constexpr i64 kSums = kRows * kPanel;
    static_assert(kRows == kAmxBlock && kPanel == 2 * kPairLanes);
    const bool fetches = block > kRows && !non_temporal_;  // lines that panels do not write one after the other
    const i64 some = ceil_div(kRows, 2 * cut.parts), a_row = row_bytes_;
    // What is still to be rounded: rows from `done` on.
    const float* sums = nullptr;
    Bfloat16* line = nullptr;
    const i64* places = nullptr;
    i64 count = 0, done = kRows;
    const auto round = [&](i64 number) __attribute__((always_inline)) {
      const i64 end = min_of(done + number, kRows);
      if (count == kPanel && !non_temporal_) {
        for (; done < end; ++done) round_panel(sums + done * kPanel, line + places[done]);
      } else {
        for (; done < end; ++done) round_line(sums + done * kPanel, count, line + places[done], non_temporal_);
      }
    };
    for (i64 first = 0; first < rows; first += block) {
      for (i64 p = 0; p < columns; p += kPanel) {
        const char* const b = reinterpret_cast<const char*>(b_ + p * pairs);
        const i64 width = min_of(kPanel, columns - p);
        for (i64 i = first; i < min_of(first + block, rows); i += kRows) {
          const char* const a = rows_at_ + i * a_row;
          Bfloat16* const to = lines[p / kPanel];
          if (fetches)
            for (i64 r = i; r < i + kRows; ++r) __builtin_prefetch(to + row_offset_[r], 1, 3);
          float* const next = sums == sums_ ? sums_ + kSums : sums_;
          const auto meanwhile = [&]() __attribute__((always_inline)) { round(some); };
          if (width > kPairLanes) {
            amx_.multiply_block<2>(a, a_row, b, reinterpret_cast<char*>(next), meanwhile);
          } else {
            amx_.multiply_block<1>(a, a_row, b, reinterpret_cast<char*>(next), meanwhile);
          }
          round(kRows);
          sums = next;
          line = to;
          places = row_offset_ + i;
          count = width;
          done = 0;
        }
      }
    }
    round(kRows);
    return rows;
  }

  /// By vectors: some rows of all panels, so that lines of results are written one after the other; tiles round their
  /// sums. False without a line at even distances for each row.
  bool round_tiles(i64 column, i64 columns, i64 depth) {
    constexpr i64 kHeight = 2 * kMicroRows[2], kSteps = 32;
    if (kHasAmx || !is_single(g_.c.rows) || g_.c.dtype != DataType::kBFloat16) return false;
    Columns panels[kMostColumns / kPanel];
    Bfloat16* lines[kMostColumns / kPanel];
    const i64 pairs = ceil_div(depth, 2), count = ceil_div(columns, kPanel), c_row = inner(g_.c.rows).stride;
    for (i64 p = 0; p < count; ++p) {
      panels[p] = {column + p * kPanel, min_of(kPanel, columns - p * kPanel), b_ + p * kPanel * pairs, sums_};
      const int runs = cut_runs(g_.c.columns, panels[p].first, static_cast<int>(panels[p].count), column_runs_);
      lines[p] = is_line(runs) ? static_cast<Bfloat16*>(g_.c.data) + column_runs_[0].offset : nullptr;
    }
    const i64 block = kHeight * ceil_div(kSteps, pairs);  // fewer rows of few depths would not be worth a call
    for (i64 i = 0, rows; i < rows_; i += rows) {
      rows = min_of(block, rows_ - i);
      for (i64 p = 0; p < count; ++p) {
        if (lines[p] == nullptr) {
          row_by_row(i, i + rows, panels[p], 0, depth);
          continue;
        }
        Bfloat16* const c = lines[p] + row_offset_[i];
        const bool starts_line = reinterpret_cast<std::uintptr_t>(c) % 64 == 0 && c_row % (64 / sizeof *c) == 0;
        Micro m = micro(i, panels[p], 0, depth);
        m.c = c;
        m.c_row = c_row * static_cast<i64>(sizeof *c);
        m.tail = static_cast<int>(panels[p].count % kPairLanes);
        m.rounds = true;
        m.non_temporal = non_temporal_ && starts_line && panels[p].count == kPanel;
        multiply_rows(amx_, Dot::kBf16, rows, ceil_div(panels[p].count, kPairLanes), m);
      }
    }
    return true;
  }

  /// Of a panel whose depth is too large to be copied at once.
  void part_by_part(const Columns& columns, i64 k0, i64 depth) {
    for (i64 k = 0; k < depth; k += kDepth) {
      const i64 some = min_of(kDepth, depth - k);
      copy_b(columns.first, columns.count, k0 + k, some);
      multiply(0, rows_, columns, k0, k, some);
    }
    if (k0 + depth < g_.k) return;
    write(0, rows_, columns, cut_runs(g_.c.columns, columns.first, static_cast<int>(columns.count), column_runs_));
  }

  void place_a(i64 m0, i64 k0, i64 depth) {
    const Operand& a = g_.a;
    if (in_place_) {
      const i64 at = a.offset + m0 * inner(a.lanes).stride + seek(a.depth, k0).offset;
      rows_at_ = reinterpret_cast<const char*>(static_cast<const Bfloat16*>(a.data) + at);
      row_bytes_ = inner(a.lanes).stride * static_cast<i64>(sizeof(Bfloat16));
      return;
    }
    rows_at_ = reinterpret_cast<const char*>(a_);
    row_bytes_ = a_pitch_ * static_cast<i64>(sizeof(std::int32_t));
    if (run_cost(a.depth) <= run_cost(a.lanes)) {
      const Lines lines(a, a.depth, k0, depth, runs_);
      Cursor at = seek(a.lanes, m0);
      for (i64 i = 0; i < rows_; ++i, step(at, a.lanes))
        lines.fetch(at, round_up(depth, 2), reinterpret_cast<Bfloat16*>(a_ + i * a_pitch_));
      return;
    }
    kHasAmx ? transpose_rows(m0, k0, depth) : pair_rows(m0, k0, depth);
  }

  /// Rows that are neighbours stay so: a_[pair][row].
  void pair_rows(i64 m0, i64 k0, i64 depth) {
    const Operand& a = g_.a;
    const Lines lines(a, a.lanes, m0, rows_, runs_);
    each_pair(lines, a.depth, k0, depth, rows_, [&](i64 p, const Pair& pair) {
      for (i64 row = 0; row < rows_; row += kPairLanes) {
        store(a_ + p * pair_pitch_ + row, operands(pair, row, min_of(kPairLanes, rows_ - row)));
      }
    });
    row_bytes_ = sizeof(std::int32_t);
    step_bytes_ = pair_pitch_ * row_bytes_;
  }

  /// Rows that are neighbours, for tile registers: squares of some lines of depth, before the next ones.
  void transpose_rows(i64 m0, i64 k0, i64 depth) {
    const Operand& a = g_.a;
    const Lines lines(a, a.lanes, m0, rows_, runs_);
    Cursor at = seek(a.depth, k0);
    for (i64 k = 0; k < depth; k += 2 * kPairLanes) {
      Pair pairs[kPairLanes];
      const i64 high = min_of(kPairLanes, ceil_div(depth - k, 2));
      for (i64 p = 0; p < high; ++p) pairs[p] = next_pair(lines, a.depth, at, depth - k - 2 * p, rows_, 2 * p);
      for (i64 row = 0; row < rows_; row += kPairLanes) {
        const i64 some = min_of(kPairLanes, rows_ - row);
        Operands block[kPairLanes] = {};
        for (i64 p = 0; p < high; ++p) block[p] = operands(pairs[p], row, some);
        transpose(block);
        for (i64 j = 0; j < some; ++j) store(a_ + (row + j) * a_pitch_ + k / 2, block[j]);
      }
    }
  }

  /// The next two lines of `left`, or the last one. What does not lie in lines goes to these buffers.
  Pair next_pair(const Lines& lines, const Axis& axis, Cursor& at, i64 left, i64 length, i64 buffers = 0) {
    Pair pair{};
    for (int i = 0; i < min_of<i64>(left, 2); ++i, step(at, axis)) {
      Bfloat16* const buffer = line_ + (buffers + i) * line_pitch_;
      if (!lines.plain()) lines.fetch(at, length, buffer);
      pair.line[i] = lines.plain() ? lines.place(at) : buffer;
    }
    return pair;
  }

  /// Calls use(number, pair) for each two lines of a part of the depth.
  template <class Use>
  void each_pair(const Lines& lines, const Axis& axis, i64 k0, i64 depth, i64 length, const Use& use) {
    Cursor at = seek(axis, k0);
    const i64 pairs = ceil_div(depth, 2);
    if (!lines.plain() || !is_single(axis)) {
      for (i64 p = 0; p < pairs; ++p) use(p, next_pair(lines, axis, at, depth - 2 * p, length));
      return;
    }
    const i64 stride = inner(axis).stride;
    const Bfloat16* line = lines.place(at);
    for (i64 p = 0; p < pairs; ++p, line += 2 * stride)
      use(p, Pair{{line, 2 * p + 1 < depth ? line + stride : nullptr}});
  }

  /// b_[panel][pair][column of the panel].
  void copy_b(i64 column, i64 columns, i64 k0, i64 depth) {
    const Operand& b = g_.b;
    if (run_cost(b.lanes) <= run_cost(b.depth)) return pair_lines(column, columns, k0, depth);
    const i64 pairs = ceil_div(depth, 2);
    for (i64 n = 0; n < columns; n += kPairLanes) {
      const i64 panel = n / kPanel * kPanel, width = round_up(min_of(kPanel, columns - panel), kPairLanes);
      transpose_columns(column + n, columns - n, k0, depth, b_ + panel * pairs + n - panel, width);
    }
  }

  /// Adds the product of some rows and the part of the depth that was copied to sums.
  void multiply(i64 row, i64 rows, const Columns& columns, i64 k0, i64 k, i64 depth) {
    Micro m = micro(row, columns, k, depth);
    m.c = sums_of(columns, row);
    m.c_row = pitch_ * static_cast<i64>(sizeof(float));
    m.add = k0 + k > 0;
    multiply_rows(amx_, Dot::kBf16, rows, ceil_div(columns.count, kPairLanes), m);
  }

  /// The operands of rows from this one on, and of depths from k on.
  Micro micro(i64 row, const Columns& columns, i64 k, i64 depth) const {
    return {.a = rows_at_ + row * row_bytes_ + k / 2 * step_bytes_,
            .b = columns.b,
            .depth = ceil_div(depth, 2),
            .a_row = row_bytes_,
            .a_step = step_bytes_,
            .b_step = ceil_div(columns.count, kPairLanes) * kVectorBytes};
  }

  /// Where sums are not kept for another block of depth, all rows use the same ones in turn.
  float* sums_of(const Columns& columns, i64 row) const { return columns.sums + (pitch_ == kPanel ? 0 : row * pitch_); }

  /// Of B whose columns are neighbours.
  void pair_lines(i64 column, i64 columns, i64 k0, i64 depth) {
    const Operand& b = g_.b;
    const Lines lines(b, b.lanes, column, columns, runs_);
    const i64 pairs = ceil_div(depth, 2);
    each_pair(lines, b.depth, k0, depth, columns, [&](i64 p, const Pair& pair) {
      for (i64 panel = 0; panel < columns; panel += kPanel) {
        const i64 end = min_of(panel + kPanel, columns), width = round_up(end - panel, kPairLanes);
        std::int32_t* to = b_ + panel * pairs + p * width;
        for (i64 n = panel; n < end; n += kPairLanes, to += kPairLanes)
          store(to, operands(pair, n, min_of(kPairLanes, end - n)));
      }
    });
  }

  /// The same where depths are neighbours, for a vector of columns.
  void transpose_columns(i64 column, i64 columns, i64 k0, i64 depth, std::int32_t* to, i64 pitch) {
    const Operand& b = g_.b;
    const i64 some = min_of(kPairLanes, columns), pairs = ceil_div(depth, 2);
    const Lines lines(b, b.depth, k0, depth, runs_);
    const bool plain = lines.plain() && depth % 2 == 0;
    const std::int32_t* source[kPairLanes];
    Cursor at = seek(b.lanes, column);
    for (i64 j = 0; j < some; ++j, step(at, b.lanes)) {
      Bfloat16* const buffer = line_ + j * line_pitch_;
      if (!plain) lines.fetch(at, 2 * pairs, buffer);
      source[j] = reinterpret_cast<const std::int32_t*>(plain ? lines.place(at) : buffer);
    }
    for (i64 p = 0; p < pairs; p += kPairLanes) {
      const int high = static_cast<int>(min_of(kPairLanes, pairs - p));
      Operands block[kPairLanes] = {};
      for (i64 j = 0; j < some; ++j) block[j] = load_lanes(source[j] + p, 0, high);
      transpose(block);
      for (i64 i = 0; i < high; ++i, to += pitch) store(to, block[i]);
    }
  }

  /// Finished sums of some rows.
  void write(i64 row, i64 rows, const Columns& columns, int count) {
    const i64 stride = inner(g_.c.columns).stride;
    const i64* const to = row_offset_ + row;
    const float* sums = sums_of(columns, row);
    if (is_line(count)) {
      Bfloat16* const c = static_cast<Bfloat16*>(g_.c.data) + column_runs_[0].offset;
      const bool whole = columns.count == kPanel && !non_temporal_;
      for (i64 i = 0; whole && i < rows; ++i) round_panel(sums + i * pitch_, c + to[i]);
      for (i64 i = 0; !whole && i < rows; ++i) round_line(sums + i * pitch_, columns.count, c + to[i], non_temporal_);
      return;
    }
    const auto alpha = static_cast<float>(g_.alpha), beta = static_cast<float>(g_.beta);
    with_storage<float>(g_.c.dtype, [&](auto* s) {
      auto* const c = static_cast<decltype(s)>(g_.c.data);
      for (i64 i = 0; i < rows; ++i) write_runs(c + to[i], stride, column_runs_, count, sums + i * pitch_, alpha, beta);
    });
  }

  const Gemm& g_;
  const i64 rows_, columns_, pair_pitch_ = pitch_of<float>(rows_);
  const i64 run_ = is_single(g_.a.depth) && is_single(g_.b.depth) ? 0 : depth_run(g_);
  bool in_place_;
  // Past the caches; fewer bytes unless lines follow each other.
  const bool non_temporal_ = g_.m * g_.n * static_cast<i64>(sizeof(Bfloat16)) >
                             (is_single(g_.c.columns) ? kResultCaches : kResultCaches / 2);
  i64 step_, pitch_, a_pitch_, line_pitch_;
  i64 row_bytes_ = 0, step_bytes_ = sizeof(std::int32_t);  // of A, from one row and from one pair to the next
  const char* rows_at_ = nullptr;
  std::int32_t *a_, *b_;
  float* sums_;
  Bfloat16* line_;
  Run *runs_, *column_runs_;
  i64* row_offset_;
  Amx amx_;
  std::size_t bytes_ = 0;
};

}  // namespace

TileShape gemm_tile(DataType type) {
  if (type != DataType::kBFloat16 || !has_pairs()) return POLYMIO_SHARED_NAMESPACE::gemm_tile(type);
  return {kPanel, kPanel, kPairLanes, true, kHasAmx};
}

std::size_t gemm_scratch(const Gemm& g, i64 rows, i64 columns) {
  return is_pairs(g) ? PairProduct(g, rows, columns, nullptr).bytes()
                     : POLYMIO_SHARED_NAMESPACE::gemm_scratch(g, rows, columns);
}

void gemm(const Gemm& g, i64 m0, i64 m1, i64 n0, i64 n1, void* scratch) {
  if (!is_pairs(g)) return POLYMIO_SHARED_NAMESPACE::gemm(g, m0, m1, n0, n1, scratch);
  PairProduct(g, m1 - m0, n1 - n0, static_cast<char*>(scratch)).run(m0, n0);
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
