// How the row skeleton (row.h) distributes rows over threads. Shared with the host.
// SPDX-License-Identifier: MIT
#pragma once
#ifndef KERNEL
namespace polymio::kernels {
#endif

/// The innermost `column_rank` dimensions of the walk are those of a row, the others count the rows.
typedef struct RowShape {
  int rows, columns;  // columns: units per row
  int column_rank;
  int lanes;       // threads per row, a power of two
  int neighbours;  // whether consecutive threads have neighbouring rows, not neighbouring units of a row
  int parts;       // blocks per row
  int aligned;     // whether vectors are aligned
  int plain;       // whether rows are one dimension, and vectors aligned neighbours in all tensors
} RowShape;

#ifndef KERNEL
}  // namespace polymio::kernels
#endif
