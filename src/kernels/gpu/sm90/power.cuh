// Powers of 2 by the special function units.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/sm90/entry.cuh"

namespace sm90 {

/// 2^v.
DEVICE float power_of_2(float v) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(v));
  return result;
}

}  // namespace sm90
