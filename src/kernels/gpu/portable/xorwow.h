// Marsaglia's generator xorwow. Shared with the host and the kernels of CPUs.
// SPDX-License-Identifier: MIT
#pragma once
#ifndef KERNEL
#include <cstdint>
namespace polymio::kernels {
using u32 = std::uint32_t;
#endif

/// Five numbers that are shifted and a counter: 24 bytes of the states that dropout's callers keep.
typedef struct Xorwow {
  u32 w[5], d;
} Xorwow;

/// One step; v receives the drawn number. All are unsigned integers of 32 bits, or vectors of them.
#define XORWOW_STEP(w0, w1, w2, w3, w4, d, v) \
  do {                                        \
    v = w0 ^ (w0 >> 2);                       \
    w0 = w1;                                  \
    w1 = w2;                                  \
    w2 = w3;                                  \
    w3 = w4;                                  \
    w4 = (w4 ^ (w4 << 4)) ^ (v ^ (v << 1));   \
    d = d + 362437u;                          \
    v = d + w4;                               \
  } while (0)

#ifndef KERNEL
}  // namespace polymio::kernels
#endif
