// The columns of the column skeleton (column.h). Shared with the host.
// SPDX-License-Identifier: MIT
#pragma once
#ifndef KERNEL
#include "kernels/gpu/portable/walk.h"
namespace polymio::kernels {
#endif

enum { kColumnOperands = 7 };  // inputs, then outputs

/// Strides in elements between columns or, where an operand has vectors of columns (NCHWc; an image's channels in
/// NHWC), between these. A block reduces `together` neighbouring columns, a power of two.
typedef struct ColumnShape {
  i64 columns;
  i64 stride[kColumnOperands];
  int vector[kColumnOperands];
  int together;
  int aligned;  // whether vectors across columns are aligned; set by the planner
} ColumnShape;

#ifndef KERNEL
}  // namespace polymio::kernels
#endif
