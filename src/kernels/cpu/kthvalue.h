// Selection of the k-th smallest element of many short lines at once, a line in each lane.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "base/dtype.h"

namespace polymio::kernels {

/// Lines as columns: element i of line c is elements[i * pitch + c]. `pitch` elements are at least `lines`, and a
/// multiple of kKthvaluePadding bytes.
struct KthvalueColumns {
  DataType type;
  void* elements;  // overwritten
  std::int64_t length, lines, pitch;
};

inline constexpr std::int64_t kKthvaluePadding = 64;  // bytes: the longest vectors

struct KthvalueKernels {
  static constexpr bool kHasDotProducts = false;
  /// positions[c]: of the first element of line c that equals its k-th smallest, counted from 1; NaNs are the largest.
  /// Lines have at most 127 elements of one byte, 32767 of two. Writes positions of the padding, too.
  void (*select)(const KthvalueColumns&, std::int64_t k, std::int32_t* positions);
};

}  // namespace polymio::kernels
