// Operands of a product of bf16 pairs, two neighbouring depths: A in place, or copied as rows of pairs or as pairs of
// rows; B copied panel by panel.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/copy_blocks.h"
#include "kernels/cpu/isa/dot_operands.h"
#include "kernels/cpu/isa/gemm_bf16_plan.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

using PairVector = Vec<std::int32_t>;

/// Two lines of neighbouring depths; line[1] is null past the last depth and counts as zeros.
struct LinePair {
  const Bfloat16* line[2];

  PairVector load(i64 first, i64 count) const {
    return interleave_pairs(line[0] + first, line[1] != nullptr ? line[1] + first : nullptr, count);
  }
};

/// Reads lines of an operand in pairs. Lines that are not contiguous are copied to buffers.
class LinePairs {
 public:
  LinePairs(const PairPlan& plan, Arena& arena)
      : buffer_pitch_(max_of(round_up(plan.rows, kPairLanes), max_of(kMaxDepthCopied, kMaxCopyColumns))),
        buffers_(arena.take<Bfloat16>((plan.has_in_place_a || !kHasAmx ? kPairLanes : 2 * kPairLanes) * buffer_pitch_)),
        runs_(arena.take<Run>(max_of(max_of(kMaxCopyColumns, plan.max_depth), plan.rows) + 1)) {}

  Run* runs() const { return runs_; }
  Bfloat16* buffer(i64 i) const { return buffers_ + i * buffer_pitch_; }

  /// The next two lines of the `left` ones, or the last one, by buffers `first_buffer` and first_buffer + 1.
  LinePair next(const Bf16Lines& lines, const Axis& axis, Cursor& cursor, i64 left, i64 length,
                i64 first_buffer = 0) const {
    LinePair pair{};
    for (int i = 0; i < min_of<i64>(left, 2); ++i, step(cursor, axis)) {
      Bfloat16* const copy = buffer(first_buffer + i);
      if (!lines.is_contiguous()) lines.copy(cursor, length, copy);
      pair.line[i] = lines.is_contiguous() ? lines.address(cursor) : copy;
    }
    return pair;
  }

  /// Calls use(index, pair) for each pair of lines of depths [k0, k0 + depth).
  template <class Use>
  void each(const Bf16Lines& lines, const Axis& axis, i64 k0, i64 depth, i64 length, const Use& use) const {
    Cursor cursor = seek(axis, k0);
    const i64 pairs = ceil_div(depth, 2);
    if (!lines.is_contiguous() || !is_uniformly_strided(axis)) {
      for (i64 p = 0; p < pairs; ++p) use(p, next(lines, axis, cursor, depth - 2 * p, length));
      return;
    }
    const i64 stride = inner(axis).stride;
    const Bfloat16* line = lines.address(cursor);
    for (i64 p = 0; p < pairs; ++p, line += 2 * stride)
      use(p, LinePair{{line, 2 * p + 1 < depth ? line + stride : nullptr}});
  }

 private:
  i64 buffer_pitch_;
  Bfloat16* buffers_;
  Run* runs_;
};

/// Rows of A for a block of depth.
class PairOperandA {
 public:
  PairOperandA(const Gemm& g, const PairPlan& plan, Arena& arena)
      : a_(g.a), plan_(plan), row_pitch_(pitch_of<float>(plan.max_depth / 2)), pair_pitch_(pitch_of<float>(plan.rows)) {
    const i64 pairs = kHasAmx ? row_pitch_ * round_up(plan.rows, kPairLanes)
                              : max_of(row_pitch_ * plan.rows, plan.max_depth / 2 * pair_pitch_);
    copy_ = arena.take<std::int32_t>(plan.has_in_place_a ? 0 : pairs);
  }

  void prepare(i64 m0, const DepthBlock& block, const LinePairs& pairs) {
    const i64 depth = block.depth;
    if (plan_.has_in_place_a) {
      const i64 offset = a_.offset + m0 * inner(a_.lanes).stride + seek(a_.depth, block.first).offset;
      data_ = reinterpret_cast<const char*>(static_cast<const Bfloat16*>(a_.data) + offset);
      row_stride_ = inner(a_.lanes).stride * static_cast<i64>(sizeof(Bfloat16));
      return;
    }
    data_ = reinterpret_cast<const char*>(copy_);
    row_stride_ = row_pitch_ * static_cast<i64>(sizeof(std::int32_t));
    if (run_cost(a_.depth) <= run_cost(a_.lanes)) {
      const Bf16Lines lines(a_, a_.depth, block.first, depth, pairs.runs());
      Cursor cursor = seek(a_.lanes, m0);
      for (i64 i = 0; i < plan_.rows; ++i, step(cursor, a_.lanes))
        lines.copy(cursor, round_up(depth, 2), reinterpret_cast<Bfloat16*>(copy_ + i * row_pitch_));
      return;
    }
    const Bf16Lines lines(a_, a_.lanes, m0, plan_.rows, pairs.runs());
    kHasAmx ? transpose_rows(lines, block.first, depth, pairs) : interleave(lines, block.first, depth, pairs);
  }

  /// The first pair of row `row` and depth `k` of the block.
  const char* at(i64 row, i64 k) const { return data_ + row * row_stride_ + k / 2 * pair_stride_; }
  /// Bytes from row to row, from pair to pair.
  i64 row_stride() const { return row_stride_; }
  i64 pair_stride() const { return pair_stride_; }

 private:
  /// Contiguous rows, for vectors: [pair][row].
  void interleave(const Bf16Lines& lines, i64 k0, i64 depth, const LinePairs& pairs) {
    pairs.each(lines, a_.depth, k0, depth, plan_.rows, [&](i64 p, const LinePair& pair) {
      for (i64 row = 0; row < plan_.rows; row += kPairLanes)
        store(copy_ + p * pair_pitch_ + row, pair.load(row, min_of(kPairLanes, plan_.rows - row)));
    });
    row_stride_ = sizeof(std::int32_t);
    pair_stride_ = pair_pitch_ * row_stride_;
  }

  /// Contiguous rows, for tile registers: [row][pair], by transposed blocks of kPairLanes x kPairLanes pairs.
  void transpose_rows(const Bf16Lines& lines, i64 k0, i64 depth, const LinePairs& pairs) {
    Cursor cursor = seek(a_.depth, k0);
    for (i64 k = 0; k < depth; k += 2 * kPairLanes) {
      LinePair pair[kPairLanes];
      const i64 high = min_of(kPairLanes, ceil_div(depth - k, 2));
      for (i64 p = 0; p < high; ++p)
        pair[p] = pairs.next(lines, a_.depth, cursor, depth - k - 2 * p, plan_.rows, 2 * p);
      for (i64 row = 0; row < plan_.rows; row += kPairLanes) {
        const i64 some = min_of(kPairLanes, plan_.rows - row);
        PairVector block[kPairLanes] = {};
        for (i64 p = 0; p < high; ++p) block[p] = pair[p].load(row, some);
        transpose(block);
        for (i64 j = 0; j < some; ++j) store(copy_ + (row + j) * row_pitch_ + k / 2, block[j]);
      }
    }
  }

  const Operand& a_;
  const PairPlan& plan_;
  i64 row_pitch_, pair_pitch_;  // in pairs, of [row][pair] and of [pair][row]
  std::int32_t* copy_;
  const char* data_ = nullptr;
  i64 row_stride_ = 0, pair_stride_ = sizeof(std::int32_t);
};

/// The copy of columns of B: [panel][pair][column of the panel].
class PairOperandB {
 public:
  PairOperandB(const Gemm& g, Arena& arena) : b_(g.b), copy_(arena.take<std::int32_t>(kPairsOfB)) {}

  const std::int32_t* data() const { return copy_; }

  /// Copies columns from `column` on, depths [k0, k0 + depth).
  void copy(i64 column, i64 columns, i64 k0, i64 depth, const LinePairs& pairs) const {
    if (run_cost(b_.lanes) <= run_cost(b_.depth)) return interleave(column, columns, k0, depth, pairs);
    const i64 count = ceil_div(depth, 2);
    for (i64 n = 0; n < columns; n += kPairLanes) {
      const i64 panel = n / kPanelColumns * kPanelColumns;
      const i64 width = round_up(min_of(kPanelColumns, columns - panel), kPairLanes);
      transpose_columns(column + n, min_of(kPairLanes, columns - n), k0, depth, pairs,
                        copy_ + panel * count + n - panel, width);
    }
  }

 private:
  /// Contiguous columns.
  void interleave(i64 column, i64 columns, i64 k0, i64 depth, const LinePairs& pairs) const {
    const Bf16Lines lines(b_, b_.lanes, column, columns, pairs.runs());
    const i64 count = ceil_div(depth, 2);
    pairs.each(lines, b_.depth, k0, depth, columns, [&](i64 p, const LinePair& pair) {
      for (i64 panel = 0; panel < columns; panel += kPanelColumns) {
        const i64 end = min_of(panel + kPanelColumns, columns), width = round_up(end - panel, kPairLanes);
        std::int32_t* to = copy_ + panel * count + p * width;
        for (i64 n = panel; n < end; n += kPairLanes, to += kPairLanes)
          store(to, pair.load(n, min_of(kPairLanes, end - n)));
      }
    });
  }

  /// Contiguous depths: up to a vector of columns.
  void transpose_columns(i64 column, i64 columns, i64 k0, i64 depth, const LinePairs& pairs, std::int32_t* to,
                         i64 pitch) const {
    const i64 count = ceil_div(depth, 2);
    const Bf16Lines lines(b_, b_.depth, k0, depth, pairs.runs());
    const bool is_contiguous = lines.is_contiguous() && depth % 2 == 0;
    const std::int32_t* source[kPairLanes];
    Cursor cursor = seek(b_.lanes, column);
    for (i64 j = 0; j < columns; ++j, step(cursor, b_.lanes)) {
      Bfloat16* const buffer = pairs.buffer(j);
      if (!is_contiguous) lines.copy(cursor, 2 * count, buffer);
      source[j] = reinterpret_cast<const std::int32_t*>(is_contiguous ? lines.address(cursor) : buffer);
    }
    for (i64 p = 0; p < count; p += kPairLanes) {
      const int high = static_cast<int>(min_of(kPairLanes, count - p));
      PairVector block[kPairLanes] = {};
      for (i64 j = 0; j < columns; ++j) block[j] = load_lanes(source[j] + p, 0, high);
      transpose(block);
      for (i64 i = 0; i < high; ++i, to += pitch) store(to, block[i]);
    }
  }

  const Operand& b_;
  std::int32_t* copy_;
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
