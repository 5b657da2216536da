// The stored im2col matrix ("columns") of the explicit GEMM method, and its sum back into dx.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "kernels/cpu/conv_gemm.h"

namespace polymio::kernels {

/// An implicit operand that is going to be stored: `rows` lines of `row_size` elements a group. A row
/// is a lane of the operand or a depth, whichever way it is read best.
struct Columns {
  Operand view;                 // data: x of the group
  std::int64_t view_group = 0;  // elements from one group's x to the next
  bool lanes_are_rows = false;
  std::int64_t rows = 0, row_size = 0;
  std::int64_t size() const { return rows * row_size; }
};

/// Replaces the operand of `product` that reads x by stored columns, and says how to store them.
Columns take_columns(ConvProduct& product);

/// Backward data: columns = alpha * transposed w * dy in `type`, c_group elements a group.
ConvProduct column_product(const ConvShape& shape, DataType type);

/// dx = sum of the columns that cover each element + beta * dx, for the group at the pointers. The columns may be those
/// of some output rows of an image only: then the padding of dimension 1 is counted from the first of them.
struct ColumnSum {
  ConvShape shape;
  const void* columns = nullptr;  // fp64 for fp64 dx, else fp32
  void* dx = nullptr;
  double beta = 0;
  /// The indices of dimension 1 that are written; those from `more` on are added to what is there. Later output rows
  /// first, and the same columns give the sum that all rows at once would, bit by bit.
  std::int64_t low = 0, more = 0, high = 0;
  /// Pieces of work: one row of dx along the innermost spatial dimension, of one channel with
  /// channels first or of all with channels last.
  std::int64_t rows() const;
};

/// Whether taps or pixels are contiguous in the columns of column_product.
bool columns_are_channels_last(const ConvShape& shape);

}  // namespace polymio::kernels
