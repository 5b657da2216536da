// Stored im2col matrices: their layout and their operands in products.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/im2col.h"

#include "kernels/cpu/conv_gemm.h"

namespace polymio::kernels {
namespace {

Axis line(std::int64_t size, std::int64_t stride) {
  Axis axis;
  axis.level[kLevels - 1] = {size, stride, -1, 0};
  return axis;
}

}  // namespace

Columns take_columns(ConvProduct& p) {
  const bool is_b = p.b == ConvTensor::kX;
  Operand& operand = is_b ? p.gemm.b : p.gemm.a;
  std::int64_t& group = is_b ? p.b_group : p.a_group;
  Columns columns;
  columns.view = operand;
  columns.view_group = group;
  const Level &lanes = operand.lanes.level[kLevels - 1], &depth = operand.depth.level[kLevels - 1];
  columns.lanes_are_rows = depth.stride == 1 && (lanes.stride != 1 || depth.size > lanes.size);
  const std::int64_t lane_count = operand.lanes.size(), depth_count = operand.depth.size();
  columns.rows = columns.lanes_are_rows ? lane_count : depth_count;
  columns.row_size = columns.lanes_are_rows ? depth_count : lane_count;
  Operand stored;
  stored.dtype = operand.dtype;
  const Axis rows = line(columns.rows, columns.row_size), elements = line(columns.row_size, 1);
  stored.lanes = columns.lanes_are_rows ? rows : elements;
  stored.depth = columns.lanes_are_rows ? elements : rows;
  operand = stored;
  group = columns.size();
  return columns;
}

bool columns_are_channels_last(const ConvShape& s) { return s.x_c <= s.x_d[kSpatial - 1]; }

std::int64_t ColumnSum::rows() const {
  return shape.n * shape.in[0] * (high - low) * (columns_are_channels_last(shape) ? 1 : shape.c);
}

}  // namespace polymio::kernels
