// Copies weights (K, taps, C) to (C, taps, K): tiles through local memory. Option: ELEMENT (u8 or u32).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"

#define THREADS 256
#define TILE 32
#define ROWS (THREADS / TILE)  // of a tile that move at a time

KERNEL THREADS_PER_BLOCK(THREADS)
    swap_channels(GLOBAL const ELEMENT* RESTRICT weights, GLOBAL ELEMENT* RESTRICT swapped, const int outputs,
                  const int taps, const int channels) {
  SHARED ELEMENT tile[TILE * (TILE + 1)];
  const int across = CEIL_DIV(channels, TILE), row = BLOCK(0) / across, tap = row % taps;
  const int c0 = (BLOCK(0) - row * across) * TILE, k0 = row / taps * TILE;
  const int lane = THREAD(0) % TILE;
  UNROLL
  for (int i = 0; i < TILE; i += ROWS) {
    const int k = i + THREAD(0) / TILE;
    if (k0 + k < outputs && c0 + lane < channels)
      tile[k * (TILE + 1) + lane] = weights[((i64)(k0 + k) * taps + tap) * channels + c0 + lane];
  }
  BARRIER();
  UNROLL
  for (int i = 0; i < TILE; i += ROWS) {
    const int c = i + THREAD(0) / TILE;
    if (c0 + c < channels && k0 + lane < outputs)
      swapped[((i64)(c0 + c) * taps + tap) * outputs + k0 + lane] = tile[lane * (TILE + 1) + c];
  }
}
