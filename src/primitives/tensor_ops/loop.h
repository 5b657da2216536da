// Nested loops over tensors of the same sizes, whatever their strides, and a cursor that walks them.
// Operand 0 gives the order: its memory is visited upwards.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <span>

#include "core/tensor.h"

namespace polymio::tensor_ops {

inline constexpr std::size_t kOperands = 3;  // the output and up to two inputs

/// The sizes with all channels counted, those inside the vectors of NCHWc layouts too.
TensorDesc unvectored(const TensorDesc& t);

struct Loop {
  struct Dim {
    std::int64_t size = 1;
    std::array<std::int64_t, kOperands> strides{};  // in elements; 0 where an operand repeats
  };
  std::array<Dim, kMaxRank + 3> dims{};  // slowest first
  std::size_t rank = 0;
  std::array<std::int64_t, kOperands> base{};  // offset of the first element
  bool separate = false;                       // no element of operand 0 shares memory with another, after simplify

  std::int64_t count() const;
  void push(const Dim& dim) { dims[rank++] = dim; }
  /// Drops sizes of 1, sorts by operand 0 and merges dimensions that are one in every operand. At
  /// least one dimension remains.
  void simplify();
};

/// The same elements as one or two loops. Where an input is dense in another dimension than operand
/// 0, its cache lines are used up in short runs of the innermost dimension instead of being read again
/// for every element in them.
struct Tiles {
  explicit Tiles(const Loop& loop);
  std::array<Loop, 2> loops;
  std::size_t count = 1;
};

/// One dimension for each of operand 0, then one for the vectors of NCHWc layouts if any operand has
/// them. An operand with a size of 1 repeats. The caller has compared the sizes; throws BadParm for
/// different vector lengths.
Loop make_loop(std::span<const TensorDesc* const> operands);

class Cursor {
 public:
  /// At the element with the given number in the order of the loop.
  Cursor(const Loop& loop, std::int64_t start);
  std::int64_t offset(std::size_t operand) const { return offsets_[operand]; }
  /// Elements left in the innermost dimension.
  std::int64_t run() const { return loop_->dims[loop_->rank - 1].size - index_[loop_->rank - 1]; }
  /// Moves by n <= run() elements.
  void advance(std::int64_t n);

 private:
  void move(std::size_t dim, std::int64_t steps) {
    for (std::size_t o = 0; o < kOperands; ++o) offsets_[o] += steps * loop_->dims[dim].strides[o];
  }

  const Loop* loop_;
  std::array<std::int64_t, kMaxRank + 3> index_{};
  std::array<std::int64_t, kOperands> offsets_{};
};

}  // namespace polymio::tensor_ops
