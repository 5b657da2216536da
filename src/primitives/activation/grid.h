// A loop nest over tensors of equal sizes, and a cursor over its elements. Dimensions are ordered by the first tensor's
// strides, so that its addresses increase.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <span>

#include "primitives/activation/activation.h"

namespace polymio::activation {

inline constexpr std::size_t kMostOperands = 3;

struct Grid {
  struct Dim {
    std::int64_t size = 1;
    std::array<std::int64_t, kMostOperands> strides{};
  };
  std::array<Dim, kMaxRank> dims{};  // slowest first; adjacent dimensions are merged where all tensors allow it
  std::size_t rank = 1;              // at least 1
  std::size_t operands = 0;

  explicit Grid(std::span<const TensorDesc* const> tensors);
  std::int64_t count() const;
  const Dim& inner() const { return dims[rank - 1]; }
  /// The innermost dimension is contiguous in every tensor.
  bool contiguous() const;
  /// Every tensor is one contiguous run.
  bool flat() const { return rank == 1 && contiguous(); }
  /// No two elements of the first tensor share memory.
  bool separate() const;
};

/// The grid of a problem's tensors: y, x; or dx, x, dy.
Grid grid_of(const Problem&);

/// Whether tensors of equal sizes have equal strides; size-1 dimensions are ignored.
bool same_memory(const TensorDesc&, const TensorDesc&);

class Cursor {
 public:
  /// At element `start` in the order of the grid.
  Cursor(const Grid&, std::int64_t start);
  std::int64_t offset(std::size_t operand) const { return offsets_[operand]; }
  /// Elements left in the innermost dimension.
  std::int64_t run() const { return grid_->inner().size - index_[grid_->rank - 1]; }
  /// Moves by n <= run() elements.
  void advance(std::int64_t n);

 private:
  void move(std::size_t dim, std::int64_t steps);

  const Grid* grid_;
  std::array<std::int64_t, kMaxRank> index_{};
  std::array<std::int64_t, kMostOperands> offsets_{};
};

}  // namespace polymio::activation
