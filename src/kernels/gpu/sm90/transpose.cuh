// Exchanges between the four lanes that have pairs of columns of the same rows.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/sm90/warpgroup.cuh"
#include "kernels/gpu/portable/portable.h"

namespace sm90 {

/// Lane i of four lanes gets what they have in v[i].
DEVICE void transpose_four(u32 (&v)[4]) {
  UNROLL
  for (int mask = 1; mask <= 2; mask *= 2) {
    const bool upper = (threadIdx.x & mask) != 0;
    UNROLL
    for (int i = 0; i < 4; ++i) {
      if (i & mask) continue;
      const u32 other = __shfl_xor_sync(~0u, upper ? v[i] : v[i | mask], mask);
      if (upper)
        v[i] = other;
      else
        v[i | mask] = other;
    }
  }
}

}  // namespace sm90
