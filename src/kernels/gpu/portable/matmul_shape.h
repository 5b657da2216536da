// Arguments of the batched matrix product. Shared with the host.
// SPDX-License-Identifier: MIT
#pragma once
#ifndef KERNEL
#include <cstdint>
namespace polymio::kernels {
using i64 = std::int64_t;
#endif

/// c [m, n] = a [m, k] times b [k, n]; strides in elements.
typedef struct MatmulShape {
  i64 a_row, a_depth, b_depth, b_column, c_row, c_column;
  int m, n, k, tiles_m, tiles_n;
} MatmulShape;

/// Batch dimensions, slowest first; unused ones have size 1. Strides in elements.
typedef struct MatmulBatch {
  i64 size[3], a[3], b[3], c[3];
} MatmulBatch;

#ifndef KERNEL
}  // namespace polymio::kernels
#endif
