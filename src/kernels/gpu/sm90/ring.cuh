// Positions in a ring of slots in shared memory, which barriers guard.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/sm90/entry.cuh"

namespace sm90 {

/// A slot of a ring of kSlots, and the parity of the phase in which it is used.
template <int kSlots>
struct RingPosition {
  int slot = 0;
  u32 parity = 0;

  DEVICE void advance() {
    if (++slot < kSlots) return;
    slot = 0;
    parity ^= 1;
  }
  /// Advances `n` times.
  DEVICE void skip(int n) {
    const int to = slot + n;
    slot = to % kSlots;
    parity ^= to / kSlots & 1;
  }
};

}  // namespace sm90
