// Asynchronous copies of contiguous bytes by the copy engine of a multiprocessor (TMA).
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/sm90/barrier.cuh"

namespace sm90 {

/// Starts a copy from global to shared memory; `full` receives the bytes. One thread calls this. Addresses and `bytes`
/// are multiples of 16.
DEVICE void load_bulk(void* shared, const void* global, u32 bytes, const Barrier& full) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(shared)),
               "l"(global), "r"(bytes), "r"(full.address())
               : "memory");
}

}  // namespace sm90
