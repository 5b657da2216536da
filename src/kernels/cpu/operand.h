// Implicit matrices: affine views of memory, optionally with bounds (an im2col matrix that is never stored).
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "base/dtype.h"

namespace polymio::kernels {

inline constexpr int kLevels = 4;  // batch and three spatial dimensions, or channel and three taps
inline constexpr int kSpatial = 3;

/// One digit of a mixed-radix index. A step moves the address by `stride` elements and, when
/// dim >= 0, the coordinate of spatial dimension `dim` by `move`.
struct Level {
  std::int64_t size = 1;
  std::int64_t stride = 0;
  int dim = -1;
  std::int64_t move = 0;
};

/// Linear index -> element offset; level 0 is the slowest.
struct Axis {
  Level level[kLevels];
  std::int64_t size() const;
};

/// A matrix whose element (lane, depth) is at offset + lanes(lane) + depth(depth), and zero where a
/// coordinate origin[d] + (moves of both axes) is outside [0, extent[d]). Lanes run along the
/// rows of A or the columns of B; depth is the dimension that is summed over. extent[d] == 0 means
/// that dimension d is not bounded.
struct Operand {
  DataType dtype = DataType::kFloat;
  const void* data = nullptr;
  std::int64_t offset = 0;  // may be outside the buffer as long as every unmasked element is inside
  Axis lanes, depth;
  std::int64_t origin[kSpatial] = {0, 0, 0};
  std::int64_t extent[kSpatial] = {0, 0, 0};
};

/// C: element (i, j) is at offset + rows(i) + columns(j). Elements must not overlap. gap != 0: columns are every second
/// element of every second line of an image; if beta is 0, the kernel also writes zeros to the element after each of
/// them and to the two elements that are `gap` further.
struct Output {
  DataType dtype = DataType::kFloat;
  void* data = nullptr;
  std::int64_t offset = 0;
  Axis rows, columns;
  std::int64_t gap = 0;
};

/// Removes bounds that cannot be exceeded and merges levels that are contiguous. Not needed for correctness; without it
/// contiguous runs are shorter and packing is slower.
void simplify(Operand& operand);
void simplify(Output& output);

}  // namespace polymio::kernels
