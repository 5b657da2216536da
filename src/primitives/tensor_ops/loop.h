// Loop nests over tensors of equal sizes and any strides, and a cursor that iterates over them. Operand 0 determines
// the order: its addresses ascend.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <span>

#include "core/tensor.h"

namespace polymio::tensor_ops {

inline constexpr std::size_t kOperands = 3;  // the output and up to two inputs

/// The sizes with NCHWc vectors included in the channels.
TensorDesc unvectored(const TensorDesc& t);

struct Loop {
  struct Dim {
    std::int64_t size = 1;
    std::array<std::int64_t, kOperands> strides{};  // in elements; 0 where an operand is broadcast
  };
  std::array<Dim, kMaxRank + 3> dims{};  // slowest first
  std::size_t rank = 0;
  std::array<std::int64_t, kOperands> base{};  // offset of the first element
  bool separate = false;                       // no element of operand 0 shares memory with another, after simplify

  std::int64_t count() const;
  void push(const Dim& dim) { dims[rank++] = dim; }
  /// Drops dimensions of size 1, sorts by the strides of operand 0 and merges dimensions that are contiguous in every
  /// operand. At least one dimension remains.
  void simplify();
};

/// The same elements as one or two loops. Where an input is dense in another dimension than operand 0, the innermost
/// dimension is tiled so that the input's cache lines are used up while they are in the cache.
struct Tiles {
  explicit Tiles(const Loop& loop);
  std::array<Loop, 2> loops;
  std::size_t count = 1;
};

/// The dimensions of operand 0, then one for the vectors of NCHWc layouts if any operand has them. Sizes of 1 are
/// broadcast. The caller has checked the sizes; throws BadParm for different vector lengths.
Loop make_loop(std::span<const TensorDesc* const> operands);

class Cursor {
 public:
  /// At element number `start` in the order of the loop.
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
