// The products of ConvProduct: a consumer's sums of a tile over the steps in a ring of stages.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/sm90/parts.cuh"

namespace sm90 {

/// Which of a consumer's steps have half as many channels: every `period`-th from `next` on, before `end`.
struct HalfSteps {
  int next, period, end;

  /// Called with every step in order.
  DEVICE bool include(int step) {
    if (step != next || step >= end) return false;
    next += period;
    return true;
  }
};

/// kTransposed: the weights are contiguous along columns. kRowBlocks: blocks of 64 rows. kStageBytes: from one slot of
/// the ring to the next.
template <class Element, bool kTransposed, int kRowBlocks, int kColumns, int kStages, u32 kStageBytes>
struct ConvProducts {
  using Sum = typename Element::Sum;
  static constexpr int kAccumulators = kColumns / 2;
  using Sums = Sum[kRowBlocks][kAccumulators];

  u64 pixels, weights;            // descriptors of the operands in the first slot
  u64 half_pixels, half_weights;  // and of those of steps with half as many channels
  Barrier* barriers;              // of full slots, then of empty ones

  DEVICE void sum(Sums& d, int steps, RingPosition<kStages>& at, const HalfSteps& halves) const {
    if constexpr (Element::kParts > 1)
      sum_parts(d, steps, at);
    else if constexpr (Element::kAddsSteps)
      sum_steps(d, steps, at);
    else
      sum_all(d, steps, at, halves);
  }

 private:
  // A product takes 32 bytes of the depth; units of 16 bytes.
  static constexpr u64 kNextDepth = 2, kNextDepthOfWeights = kTransposed ? 16 * kRowBytes / 16 : 2;
  static constexpr u64 kNextBlock = 64 * kRowBytes / 16;
  static constexpr int kProducts = kRowBytes / 32;

  DEVICE Barrier& full(int slot) const { return barriers[slot]; }
  DEVICE Barrier& empty(int slot) const { return barriers[kStages + slot]; }

  /// The products of a step, whose pixels have rows of kBytes.
  template <int kBytes>
  static DEVICE void multiply_step(Sums& d, u64 a, u64 b, int accumulate) {
    begin_products();
    UNROLL
    for (int k = 0; k < kBytes / 32; ++k) UNROLL
    for (int block = 0; block < kRowBlocks; ++block)
      multiply(d[block], a + block * (64 * kBytes / 16) + k * kNextDepth, b + k * kNextDepthOfWeights, accumulate | k);
    commit_products();
  }

  DEVICE void sum_all(Sums& d, int steps, RingPosition<kStages>& at, HalfSteps halves) const {
    const bool first_lane = threadIdx.x % 32 == 0;
    int before = 0;
    NO_UNROLL
    for (int i = 0; i < steps; ++i) {
      full(at.slot).wait(at.parity);
      const u32 slot = at.slot * (kStageBytes / 16);
      if (halves.include(i))
        multiply_step<kRowBytes / 2>(d, half_pixels + slot, half_weights + slot, i);
      else
        multiply_step<kRowBytes>(d, pixels + slot, weights + slot, i);
      wait_for_products<1>();  // those of the step before have read their stage
      if (i > 0 && first_lane) empty(before).arrive();
      before = at.slot;
      at.advance();
    }
    wait_for_products<0>();
    if (first_lane) empty(before).arrive();
  }

  /// The same, with the sums of each step added to others. Consumers that share a tile multiply while the other adds.
  DEVICE void sum_steps(Sums& d, int steps, RingPosition<kStages>& at) const {
    UNROLL
    for (int block = 0; block < kRowBlocks; ++block) UNROLL
    for (int e = 0; e < kAccumulators; ++e) d[block][e] = 0;
    NO_UNROLL
    for (int i = 0; i < steps; ++i) {
      full(at.slot).wait(at.parity);
      const u64 a = pixels + at.slot * (kStageBytes / 16), b = weights + at.slot * (kStageBytes / 16);
      UNROLL
      for (int block = 0; block < kRowBlocks; ++block) {
        Sum sums[kAccumulators];
        begin_products();
        UNROLL
        for (int k = 0; k < kProducts; ++k)
          multiply(sums, a + block * kNextBlock + k * kNextDepth, b + k * kNextDepthOfWeights, k);
        commit_products();
        wait_for_products<0>();
        if (block + 1 == kRowBlocks && threadIdx.x % 32 == 0) empty(at.slot).arrive();
        UNROLL
        for (int e = 0; e < kAccumulators; ++e) d[block][e] += sums[e];
      }
      at.advance();
    }
  }

  DEVICE void sum_parts(Sums& sums, int steps, RingPosition<kStages>& at) const {
    multiply_parts<kStageBytes / 16>(sums, steps, at, barriers, [&](Sums& d, u32 a, u32 b, bool first) {
      UNROLL
      for (int k = 0; k < kProducts; ++k) UNROLL
      for (int block = 0; block < kRowBlocks; ++block)
        multiply(d[block], pixels + a + block * kNextBlock + k * kNextDepth, weights + b + k * kNextDepthOfWeights,
                 !first || k > 0);
    });
  }
};

}  // namespace sm90
