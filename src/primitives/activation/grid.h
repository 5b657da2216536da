// Tensors of equal sizes as nested loops, and a cursor that walks them. The first tensor gives the order:
// its memory is visited upwards.
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
  std::array<Dim, kMaxRank> dims{};  // slowest first; neighbours that are one in every tensor are merged
  std::size_t rank = 1;              // at least 1
  std::size_t operands = 0;

  explicit Grid(std::span<const TensorDesc* const> tensors);
  std::int64_t count() const;
  const Dim& inner() const { return dims[rank - 1]; }
  /// Innermost runs are contiguous in every tensor.
  bool contiguous() const;
  /// One contiguous run.
  bool flat() const { return rank == 1 && contiguous(); }
  /// No two elements of the first tensor share memory.
  bool separate() const;
};

/// Of what a problem writes and reads: y and x, or dx, x and dy.
Grid grid_of(const Problem&);

/// Equal strides, for tensors of equal sizes; those of sizes 1 do not count.
bool same_memory(const TensorDesc&, const TensorDesc&);

class Cursor {
 public:
  /// At the element of this number in the order of the grid.
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
