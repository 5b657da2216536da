// Products of bf16 matrices where an instruction set multiplies pairs of neighbouring depths: A lies in place or is copied
// row by row, B panel by panel. All other products are those of the instruction set that is added to.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/amx.h"
#include "kernels/cpu/isa/block.h"
#include "kernels/cpu/isa/direct_words.h"
#include "kernels/cpu/isa/entries.h"
#include "kernels/cpu/isa/placed.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

using Words = Vec<std::int32_t>;
constexpr i64 kWords = kLanes<std::int32_t>;
constexpr i64 kPanel = 2 * kWords;        // columns
constexpr i64 kDepth = 512;               // of B's copy, which stays in the first-level cache
constexpr i64 kMostDepth = 8 * kDepth;    // of A in place
constexpr i64 kCopied = 512 * 1024;       // elements of A's copy

bool has_pairs() { return kHasAmx || prefers_bf16_dot(); }

bool is_pairs(const Gemm& g) {
  constexpr DataType kType = DataType::kBFloat16;
  return g.a.dtype == kType && g.b.dtype == kType && g.c.gap == 0 && g.k > 0 && has_pairs();
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
    a_ = take<std::int32_t>(base, in_place_ ? 0 : round_up(rows, kWords) * a_pitch_);
    b_ = take<std::int32_t>(base, kDepth / 2 * kPanel);
    sums_ = take<float>(base, rows * pitch_);
    line_ = take<Bfloat16>(base, kWords * kDepth);
    runs_ = take<Run>(base, max_of(kPanel, step_) + 1);
    column_runs_ = take<Run>(base, kPanel + 1);
    row_offset_ = take<i64>(base, rows);
  }
  std::size_t bytes() const { return bytes_; }

  void run(i64 m0, i64 n0) {
    Cursor row = seek(g_.c.rows, m0);
    for (i64 i = 0; i < rows_; ++i, step(row, g_.c.rows)) row_offset_[i] = g_.c.offset + row.offset;
    for (i64 k0 = 0, depth; k0 < g_.k; k0 += depth) {
      depth = min_of(step_, g_.k - k0);
      if (run_ > 0) depth = min_of(depth, run_ - k0 % run_);
      place_a(m0, k0, depth);
      for (i64 n = 0; n < columns_; n += kPanel) {
        const i64 some = min_of(kPanel, columns_ - n);
        float* const sums = sums_ + (pitch_ == kPanel ? 0 : n);
        for (i64 k = 0; k < depth; k += kDepth) multiply(n0 + n, some, k0, k, min_of(kDepth, depth - k), sums);
        if (k0 + depth == g_.k) write(n0 + n, static_cast<int>(some), sums);
      }
    }
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
  static Words words(const Pair& pair, i64 first, i64 count) {
    const int n = static_cast<int>(count);
    Vec<std::uint32_t> words = row_bits<Bfloat16>(pair.line[0] + first, n);
    if (pair.line[1]) words |= row_bits<Bfloat16>(pair.line[1] + first, n) << 16;
    return (Words)words;
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
    for (i64 row = 0; row < rows_; row += kWords) turn_rows(m0 + row, row, k0, depth);
  }

  /// Up to a vector of rows, whose elements are neighbours.
  void turn_rows(i64 first, i64 row, i64 k0, i64 depth) {
    const Operand& a = g_.a;
    const i64 some = min_of(kWords, rows_ - row);
    const Lines lines(a, a.lanes, first, some, runs_);
    Cursor at = seek(a.depth, k0);
    for (i64 k = 0; k < depth; k += 2 * kWords) {
      Words block[kWords] = {};
      for (i64 p = 0; p < kWords && k + 2 * p < depth; ++p) {
        const Pair pair = next_pair(lines, a.depth, at, depth - k - 2 * p, some);
        block[p] = words(pair, 0, some);
      }
      transpose(block);
      for (i64 j = 0; j < some; ++j) store(a_ + (row + j) * a_pitch_ + k / 2, block[j]);
    }
  }

  /// The next two lines of `left`, or the last one.
  Pair next_pair(const Lines& lines, const Axis& axis, Cursor& at, i64 left, i64 length) {
    Pair pair{};
    for (int i = 0; i < min_of<i64>(left, 2); ++i, step(at, axis)) {
      Bfloat16* const buffer = line_ + i * kDepth;
      if (!lines.plain()) lines.fetch(at, length, buffer);
      pair.line[i] = lines.plain() ? lines.place(at) : buffer;
    }
    return pair;
  }

  /// Adds the product of part of the depth to sums.
  void multiply(i64 column, i64 columns, i64 k0, i64 k, i64 depth, float* sums) {
    const i64 vectors = ceil_div(columns, kWords), pairs = ceil_div(depth, 2);
    const Operand& b = g_.b;
    if (run_cost(b.lanes) <= run_cost(b.depth)) {
      pair_lines(column, columns, k0 + k, depth);
    } else {
      for (i64 v = 0; v < vectors; ++v) turn_columns(column + v * kWords, columns - v * kWords, k0 + k, depth, v, vectors);
    }
    Micro m{.a = rows_at_ + k * static_cast<i64>(sizeof(Bfloat16)), .b = b_, .depth = pairs, .a_row = row_bytes_,
            .a_step = sizeof(std::int32_t), .b_step = vectors * kVectorBytes, .c = sums,
            .c_row = pitch_ * static_cast<i64>(sizeof(float)), .add = k0 + k > 0};
    multiply_rows(amx_, Dot::kBf16, rows_, vectors, m);
  }

  /// b_[pair][column] of B whose columns are neighbours.
  void pair_lines(i64 column, i64 columns, i64 k0, i64 depth) {
    const Operand& b = g_.b;
    const Lines lines(b, b.lanes, column, columns, runs_);
    Cursor at = seek(b.depth, k0);
    std::int32_t* to = b_;
    for (i64 k = 0; k < depth; k += 2) {
      const Pair pair = next_pair(lines, b.depth, at, depth - k, columns);
      for (i64 n = 0; n < columns; n += kWords, to += kWords) store(to, words(pair, n, min_of(kWords, columns - n)));
    }
  }

  /// The same where depths are neighbours, for a vector of columns.
  void turn_columns(i64 column, i64 columns, i64 k0, i64 depth, i64 vector, i64 vectors) {
    const Operand& b = g_.b;
    const i64 some = min_of(kWords, columns), pairs = ceil_div(depth, 2);
    const Lines lines(b, b.depth, k0, depth, runs_);
    const bool plain = lines.plain() && depth % 2 == 0;
    const std::int32_t* source[kWords];
    Cursor at = seek(b.lanes, column);
    for (i64 j = 0; j < some; ++j, step(at, b.lanes)) {
      Bfloat16* const buffer = line_ + j * kDepth;
      if (!plain) lines.fetch(at, 2 * pairs, buffer);
      source[j] = reinterpret_cast<const std::int32_t*>(plain ? lines.place(at) : buffer);
    }
    std::int32_t* to = b_ + vector * kWords;
    for (i64 p = 0; p < pairs; p += kWords) {
      const int high = static_cast<int>(min_of(kWords, pairs - p));
      Words block[kWords] = {};
      for (i64 j = 0; j < some; ++j) block[j] = load_lanes(source[j] + p, 0, high);
      transpose(block);
      for (i64 i = 0; i < high; ++i, to += vectors * kWords) store(to, block[i]);
    }
  }

  void write(i64 column, int columns, const float* sums) {
    const i64 stride = inner(g_.c.columns).stride;
    const int count = cut_runs(g_.c.columns, column, columns, column_runs_);
    const auto alpha = static_cast<float>(g_.alpha), beta = static_cast<float>(g_.beta);
    with_storage<float>(g_.c.dtype, [&](auto* s) {
      auto* const c = static_cast<decltype(s)>(g_.c.data);
      for (i64 i = 0; i < rows_; ++i)
        write_runs(c + row_offset_[i], stride, column_runs_, count, sums + i * pitch_, alpha, beta);
    });
  }

  const Gemm& g_;
  const i64 rows_, columns_, run_ = is_single(g_.a.depth) && is_single(g_.b.depth) ? 0 : depth_run(g_);
  bool in_place_;
  i64 step_, pitch_, a_pitch_, row_bytes_ = 0;
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
  return {kPanel, kPanel, kWords, kHasAmx};
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
