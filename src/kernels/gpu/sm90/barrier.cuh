// Barriers in shared memory that wait for threads and for the bytes of asynchronous copies (mbarrier).
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/sm90/ring.cuh"

namespace sm90 {

DEVICE u32 shared_address(const void* pointer) { return static_cast<u32>(__cvta_generic_to_shared(pointer)); }

/// A phase ends when `arrivals` threads have arrived and all bytes that they expect have been copied. Phases alternate
/// between parity 0, the first, and 1; a wait for parity 1 of a new barrier returns at once.
class Barrier {
 public:
  /// One thread calls this; publish_barriers() and a barrier of the block follow.
  DEVICE void init(u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address()), "r"(arrivals) : "memory");
  }

  DEVICE void arrive() { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address()) : "memory"); }

  /// Arrives, and lets the phase wait for as many bytes.
  DEVICE void arrive_and_expect(u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()), "r"(bytes) : "memory");
  }

  /// Returns when the phase of this parity has ended.
  DEVICE void wait(u32 parity) {
    u32 ended = 0;
    while (ended == 0)
      asm volatile(
          "{\n"
          ".reg .pred p;\n"
          "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
          "selp.u32 %0, 1, 0, p;\n"
          "}"
          : "=r"(ended)
          : "r"(address()), "r"(parity)
          : "memory");
  }

  DEVICE u32 address() const { return shared_address(this); }

 private:
  u64 state_;
};

/// Makes the initialised barriers of this thread visible to asynchronous copies.
DEVICE void publish_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

}  // namespace sm90
