// The combination of a row's lanes for row.h, in a fixed order: in registers by shuffles of a subgroup where the
// language has them, else in local memory.
// SPDX-License-Identifier: MIT
#pragma once

#ifdef __CUDA_ARCH__
#define SUBGROUP 32

INLINE Accumulator shuffle_xor(Accumulator own, int mask) {
  union {
    Accumulator value;
    u32 units[sizeof(Accumulator) / 4];
  } v;
  v.value = own;
  UNROLL
  for (u32 i = 0; i < sizeof(Accumulator) / 4; ++i) v.units[i] = __shfl_xor_sync(0xffffffffu, v.units[i], mask);
  return v.value;
}

/// Every lane computes the same, so that all threads of a row have equal bits: the lower lane is the first operand.
INLINE Accumulator combine_subgroup(Accumulator own, int lane, int lanes) {
  for (int mask = 1; mask < MIN(lanes, SUBGROUP); mask *= 2) {
    const Accumulator other = shuffle_xor(own, mask);
    const int is_upper = lane & mask;
    own = combine(is_upper ? other : own, is_upper ? own : other);
  }
  return own;
}
#endif

/// Returns to each of the `lanes` threads of a row, `stride` threads apart, what they combine to. All threads of the
/// block call it.
INLINE Accumulator combine_lanes(Accumulator own, LOCAL Accumulator* sums, int lane, int lanes, int stride) {
#ifdef SUBGROUP
  if (stride == 1) {
    own = combine_subgroup(own, lane, lanes);
    if (lanes <= SUBGROUP) return own;
    if (lane % SUBGROUP == 0) sums[THREAD(0) / SUBGROUP] = own;
    BARRIER();
    const int subgroups = lanes / SUBGROUP, subgroup = lane % subgroups;
    return combine_subgroup(sums[(THREAD(0) - lane) / SUBGROUP + subgroup], subgroup, subgroups);
  }
#endif
  sums[THREAD(0)] = own;
  for (int other = lanes / 2; other > 0; other /= 2) {
    BARRIER();
    if (lane < other) sums[THREAD(0)] = combine(sums[THREAD(0)], sums[THREAD(0) + other * stride]);
  }
  BARRIER();
  return sums[THREAD(0) - lane * stride];
}
