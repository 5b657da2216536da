// The counter-based generator Philox 4x32 with 10 rounds (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy
// as 1, 2, 3; SC 2011): four numbers for each counter, without a state. Shared with the host.
// SPDX-License-Identifier: MIT
#pragma once
#ifndef KERNEL
#include <cstdint>
namespace polymio::kernels {
using u32 = std::uint32_t;
using u64 = std::uint64_t;
#define PHILOX_FUNCTION inline
#else
#define PHILOX_FUNCTION INLINE
#endif

PHILOX_FUNCTION void philox(u64 seed, u64 counter, u64 offset, u32* v) {
  u32 key0 = (u32)seed, key1 = (u32)(seed >> 32);
  v[0] = (u32)counter;
  v[1] = (u32)(counter >> 32);
  v[2] = (u32)offset;
  v[3] = (u32)(offset >> 32);
  for (int round = 0; round < 10; ++round) {
    const u64 p = (u64)0xd2511f53u * v[0], q = (u64)0xcd9e8d57u * v[2];
    const u32 v1 = v[1], v3 = v[3];
    v[0] = (u32)(q >> 32) ^ v1 ^ key0;
    v[1] = (u32)q;
    v[2] = (u32)(p >> 32) ^ v3 ^ key1;
    v[3] = (u32)p;
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
}

/// In (0, 1), a multiple of 2^-25 that is exact in float.
PHILOX_FUNCTION float philox_unit(u32 v) { return ((float)(v >> 8) + 0.5f) * 0x1p-24f; }

#ifndef KERNEL
}  // namespace polymio::kernels
#endif
