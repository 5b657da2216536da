// Sizes of axes and their simplification.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/operand.h"

#include <algorithm>

namespace polymio::kernels {
namespace {

/// Extends [low, high] by the smallest and largest coordinates that an axis adds.
void add_range(const Axis& axis, int dim, std::int64_t& low, std::int64_t& high) {
  for (const Level& l : axis.level) {
    if (l.dim != dim) continue;
    const std::int64_t last = (l.size - 1) * l.move;
    low += std::min<std::int64_t>(last, 0);
    high += std::max<std::int64_t>(last, 0);
  }
}

void drop_dim(Axis& axis, int dim) {
  for (Level& l : axis.level) {
    if (l.dim == dim) l.dim = -1;
  }
}

void merge_levels(Axis& axis) {
  Level kept[kLevels];
  int count = 0;
  for (const Level& l : axis.level) {
    if (l.size == 1) continue;
    if (count > 0) {
      Level& outer = kept[count - 1];
      if (outer.dim < 0 && l.dim < 0 && outer.stride == l.size * l.stride) {
        outer.size *= l.size;
        outer.stride = l.stride;
        continue;
      }
    }
    kept[count++] = l;
  }
  for (int i = 0; i < kLevels; ++i) {
    const int source = i - (kLevels - count);
    axis.level[i] = source >= 0 ? kept[source] : Level{};
  }
}

}  // namespace

std::int64_t Axis::size() const {
  std::int64_t product = 1;
  for (const Level& l : level) product *= l.size;
  return product;
}

void simplify(Operand& operand) {
  for (int d = 0; d < kSpatial; ++d) {
    if (operand.extent[d] == 0) continue;
    std::int64_t low = operand.origin[d], high = operand.origin[d];
    add_range(operand.lanes, d, low, high);
    add_range(operand.depth, d, low, high);
    if (low < 0 || high >= operand.extent[d]) continue;
    operand.extent[d] = 0;
  }
  for (int d = 0; d < kSpatial; ++d) {
    if (operand.extent[d] != 0) continue;
    drop_dim(operand.lanes, d);
    drop_dim(operand.depth, d);
  }
  merge_levels(operand.lanes);
  merge_levels(operand.depth);
}

void simplify(Output& output) {
  merge_levels(output.rows);
  merge_levels(output.columns);
}

}  // namespace polymio::kernels
