// Loop nests over tensors of equal sizes and any strides, and a cursor that iterates over them. Operand 0 determines
// the order: its addresses ascend.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <optional>
#include <span>

#include "base/function_ref.h"
#include "core/tensor.h"
#include "runtime/device.h"

namespace polymio {

inline constexpr std::size_t kMaxOperands = 10;  // outputs and inputs

/// The sizes with NCHWc vectors included in the channels.
TensorDesc unvectored(const TensorDesc& t);

struct Loop {
  struct Dim {
    std::int64_t size = 1;
    std::array<std::int64_t, kMaxOperands> strides{};  // in elements; 0 where an operand is broadcast
  };
  std::array<Dim, kMaxRank + 3> dims{};  // slowest first
  std::size_t rank = 0;
  std::size_t operands = 0;
  std::array<std::int64_t, kMaxOperands> base{};  // offset of the first element
  bool separate = false;                          // no two elements of operand 0 share memory; set by merge

  std::int64_t count() const;
  const Dim& inner() const { return dims[rank - 1]; }
  void push(const Dim& dim) { dims[rank++] = dim; }
  /// Sorts dimensions by the strides of operand 0, then merges.
  void simplify();
  /// Drops dimensions of size 1 and merges neighbours that are contiguous in every operand. At least one remains.
  void merge();
  /// The innermost dimension is contiguous in every operand.
  bool contiguous() const;
  /// Every operand is one contiguous run.
  bool flat() const { return rank == 1 && contiguous(); }
  /// "dense" if flat, "rows" if contiguous, else "strided": for the family of a problem.
  const char* memory_class() const { return flat() ? "dense" : contiguous() ? "rows" : "strided"; }
};

/// The dimensions of operand 0, then one for the vectors of NCHWc layouts if any operand has them. Sizes of 1 are
/// broadcast. The caller has checked the sizes; throws BadParm for different vector lengths.
Loop make_loop(std::span<const TensorDesc* const> operands);
/// The same, simplified.
Loop simplified_loop(std::span<const TensorDesc* const> operands);

/// The same elements as one or two loops. Where an input is dense in another dimension than operand 0, the innermost
/// dimension is tiled so that the input's cache lines are used up while they are in the cache.
struct Tiles {
  explicit Tiles(const Loop& loop);
  Loop main;
  std::optional<Loop> rest;
};

class Cursor {
 public:
  /// At element number `start` in the order of the loop.
  Cursor(const Loop& loop, std::int64_t start);
  std::int64_t offset(std::size_t operand) const { return offsets_[operand]; }
  /// Elements left in the innermost dimension.
  std::int64_t run() const { return loop_->inner().size - index_[loop_->rank - 1]; }
  /// Rows left in the dimension before that, this one included; 1 if there is none.
  std::int64_t rows() const {
    return loop_->rank == 1 ? 1 : loop_->dims[loop_->rank - 2].size - index_[loop_->rank - 2];
  }
  /// Moves by n elements.
  void advance(std::int64_t n);

 private:
  void move(std::size_t dim, std::int64_t steps) {
    for (std::size_t o = 0; o < loop_->operands; ++o) offsets_[o] += steps * loop_->dims[dim].strides[o];
  }

  const Loop* loop_;
  std::array<std::int64_t, kMaxRank + 3> index_{};
  std::array<std::int64_t, kMaxOperands> offsets_{};
};

/// Calls body(first, end) on all threads for ranges of `part` of `count` elements.
void for_ranges(Stream&, std::int64_t count, std::int64_t part, FunctionRef<void(std::int64_t, std::int64_t)> body);

}  // namespace polymio
