// Products of operands that are split into three parts, x = high + middle + low. A step of the products has a slot of a
// ring for each part of both operands, in the order low, high, middle.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/sm90/warpgroup.cuh"

namespace sm90 {

/// sums = the sum over `steps` of the six products of parts that are not negligible, the smallest first. Products
/// truncate the sums that they add to, so that each step begins at zero and is added in fp32. `barriers`: of full
/// slots, then of empty ones. multiply(d, a, b, first) adds a product to d, or begins with it; a and b are the offsets
/// of slots for descriptors of operands, kStage from one slot to the next.
template <u32 kStage, int kSlots, int kBlocks, int kSums, class Multiply>
DEVICE void multiply_parts(float (&sums)[kBlocks][kSums], int steps, RingPosition<kSlots>& at, Barrier* barriers,
                           const Multiply& multiply) {
  float d[kBlocks][kSums];
  const auto wait_for = [&](const RingPosition<kSlots>& part) { barriers[part.slot].wait(part.parity); };
  const auto release = [&](const RingPosition<kSlots>& part) {
    if (threadIdx.x % 32 == 0) barriers[kSlots + part.slot].arrive();
  };
  const auto next = [&] {
    const RingPosition<kSlots> part = at;
    at.advance();
    return part;
  };
  NO_UNROLL
  for (int i = 0; i < steps; ++i) {
    const RingPosition<kSlots> low = next(), high = next(), middle = next();
    const u32 l = low.slot * kStage, h = high.slot * kStage, m = middle.slot * kStage;
    wait_for(low);
    wait_for(high);
    begin_products();
    multiply(d, l, h, true);
    multiply(d, h, l, false);
    commit_products();
    wait_for(middle);
    begin_products();
    multiply(d, m, m, false);
    multiply(d, m, h, false);
    multiply(d, h, m, false);
    commit_products();
    wait_for_products<1>();
    release(low);
    begin_products();
    multiply(d, h, h, false);
    commit_products();
    wait_for_products<1>();
    release(middle);
    wait_for_products<0>();
    release(high);
    UNROLL
    for (int b = 0; b < kBlocks; ++b) {
      UNROLL
      for (int e = 0; e < kSums; ++e) sums[b][e] = i == 0 ? d[b][e] : sums[b][e] + d[b][e];
    }
  }
}

}  // namespace sm90
