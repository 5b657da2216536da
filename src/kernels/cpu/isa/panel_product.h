// Register tiles of packed rows by a panel of two vectors of lanes, in fp32.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/micro_kernel.h"
#include "kernels/cpu/isa/storage_types.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

inline constexpr int kPanelLanes = 2 * kLanes<float>;
inline constexpr int kTileRows = kMicroRows[2];

/// sum = rows of a times b, which are packed: [step][row] and [step][lane]; calls each(step).
template <int kRows, class Each>
[[gnu::always_inline]] inline void multiply_panels(const float* a, const float* b, i64 steps, Floats (&sum)[kRows][2],
                                                   const Each& each) {
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = Floats{};
  for (i64 k = 0; k < steps; ++k, a += kRows, b += kPanelLanes) {
    each(k);
    Floats low = load(b), high = load(b + kLanes<float>);
    hold(low);
    hold(high);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const Floats row = broadcast(a[r]);
      sum[r][0] += row * low;
      sum[r][1] += row * high;
    }
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
