// The stored im2col matrix ("columns") of the explicit GEMM method, and its sum back into dx.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/conv_shape.h"

namespace polymio::kernels {

struct ConvProduct;

/// An implicit operand to be stored as a matrix of `rows` x `row_size` elements per group. A row is one lane or one
/// depth of the operand, whichever has the longer contiguous runs in x.
struct Columns {
  Operand view;                 // data: x of the group
  std::int64_t view_group = 0;  // elements between the groups of x
  bool lanes_are_rows = false;
  std::int64_t rows = 0, row_size = 0;
  std::int64_t size() const { return rows * row_size; }
};

/// Replaces the operand of `product` that reads x by stored columns; returns how to store them.
Columns take_columns(ConvProduct& product);

/// Backward data: columns = alpha * transpose(w) * dy in `type`, c_group elements per group.
ConvProduct column_product(const ConvShape& shape, DataType type);

/// col2im of one group: dx = sum of the columns that cover each element + beta * dx. The columns may cover only some
/// output rows of an image; the padding of dimension 1 is then relative to the first of these rows.
struct ColumnSum {
  ConvShape shape;
  const void* columns = nullptr;  // fp64 for fp64 dx, else fp32
  void* dx = nullptr;
  double beta = 0;
  /// Indices [low, high) of dimension 1 are written; from `more` on the sum is added to dx. Calls in descending order
  /// of output rows give the same sum, bit by bit, as one call for all rows.
  std::int64_t low = 0, more = 0, high = 0;
  /// Number of pieces: rows of dx along the innermost spatial dimension, of one channel (NCHW) or all channels (NHWC).
  std::int64_t rows() const;
};

/// Whether taps, rather than pixels, are contiguous in the columns of column_product.
bool columns_are_channels_last(const ConvShape& shape);

struct Im2colKernels {
  static constexpr bool kHasDotProducts = false;
  /// Stores rows [first, end) of the columns at `columns`, in the view's element type.
  void (*im2col)(const Columns& what, std::int64_t first, std::int64_t end, void* columns);
  /// Rows [first, end) of the sum; scratch holds col2im_scratch bytes.
  void (*col2im)(const ColumnSum& sum, std::int64_t first, std::int64_t end, void* scratch);
  std::size_t (*col2im_scratch)(const ColumnSum& sum);
};

}  // namespace polymio::kernels
