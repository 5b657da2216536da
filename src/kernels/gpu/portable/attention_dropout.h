// Dropout of attention: every score has its own generator xorwow, which rocRAND starts with a hash of the seed and the
// score's number, and takes its first number behind `offset` steps. Shared with the host and the kernels of CPUs.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/portable/xorwow.h"
#ifndef KERNEL
namespace polymio::kernels {
using u64 = std::uint64_t;
#endif

/// Steps of a generator that are taken one by one; a longer jump is a linear function.
#define ATTENTION_STEPS 16
/// Bits of the five numbers of a generator.
#define XORWOW_BITS 160

/// jump[b]: the last of the five numbers behind the steps, if the generator starts with bit b alone.
typedef struct AttentionDropout {
  u64 seed, offset;
  u32 least;   // numbers from here on keep their score
  float kept;  // factor of a score that is kept, 0: none is
  u32 jump[XORWOW_BITS];
} AttentionDropout;

#define HASH_STEP_1(x) (((x) ^ ((x) >> 30)) * 0xbf58476d1ce4e5b9ul)
#define HASH_STEP_2(x) (((x) ^ ((x) >> 27)) * 0x94d049bb133111ebul)
#define HASH_STEP_3(x) ((x) ^ ((x) >> 31))

/// rocRAND's initial state from the halves of a hash.
#define XORWOW_START(low, high, w0, w1, w2, w3, w4, d, t0, t1) \
  do {                                                         \
    t0 = ((low) ^ 0x2c7f967fu) * 1228688033u;                  \
    t1 = ((high) ^ 0xa03697cbu) * 2073658381u;                 \
    w0 = 123456789u + t0;                                      \
    w1 = 362436069u ^ t0;                                      \
    w2 = 521288629u + t1;                                      \
    w3 = 88675123u ^ t1;                                       \
    w4 = 5783321u + t0;                                        \
    d = 6615241u + t0 + t1;                                    \
  } while (0)

#ifndef KERNEL
}  // namespace polymio::kernels
#endif
