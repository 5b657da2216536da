// What the threads of a warp do together on matrix units of sm80 and later, on the emulated multiprocessor. Tests find
// this header before the one in src/.
// SPDX-License-Identifier: MIT
#pragma once
#include <utility>

#include "kernels/gpu/sm90/warpgroup.cuh"

namespace sm90 {

/// Of TF32.
template <class Element>
void multiply_by_warp(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  static_assert(std::is_same_v<Element, Tf32>);
  static std::pair<const u32*, const u32*> fragments[1024];  // of the threads of a block
  fragments[threadIdx.x] = {a, b};
  __syncwarp();
  const unsigned lane = threadIdx.x % 32;
  const auto* const warp = fragments + (threadIdx.x - lane);
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = i / 2, column = lane % 4 * 2 + i % 2;  // row: of the upper or the lower quarters
    for (unsigned k = 0; k < 8; ++k)
      d[i] += std::bit_cast<float>(warp[lane / 4 * 4 + k % 4].first[k / 4 * 2 + row]) *
              std::bit_cast<float>(warp[column * 4 + k % 4].second[k / 4]);
  }
  __syncwarp();
}

}  // namespace sm90
