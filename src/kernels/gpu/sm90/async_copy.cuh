// Asynchronous copies to shared memory by the threads themselves (cp.async), on sm80 and later.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/sm90/barrier.cuh"

namespace sm90 {

/// Copies `bytes` of a unit of 16 bytes between addresses that are multiples of 16; the rest of it becomes zero.
DEVICE void copy_async(u32 shared, const void* global, u32 bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes)
               : "memory");
}
/// The same for a unit of 8 bytes.
DEVICE void copy_async_8(u32 shared, const void* global, u32 bytes) {
  asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 8, %2;" ::"r"(shared), "l"(global), "r"(bytes)
               : "memory");
}
/// The copies since the last call are a group.
DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Until at most kPending groups of the thread's copies are under way.
template <int kPending>
DEVICE void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace sm90
