// Copies weights (groups, K, taps, C) to (groups, C, taps, K): tiles through local memory. Option: BYTES of an element,
// 4 or 1, whose K and C are then multiples of 4. A unit has 4 bytes.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"

#define THREADS 256
#define UNIT (4 / BYTES)              // elements
#define LANES (BYTES == 4 ? 32 : 16)  // units of a row of a tile
#define TILE (LANES * UNIT)           // elements of either channels
#define ROWS (THREADS / LANES)        // of a tile that move at a time
#define STEPS (TILE / ROWS)
#define PITCH (LANES + 1)  // units of a row in local memory

KERNEL THREADS_PER_BLOCK(THREADS) swap_channels(GLOBAL const u32* RESTRICT weights, GLOBAL u32* RESTRICT swapped,
                                                const int outputs, const int taps, const int channels) {
  SHARED u32 tile[TILE * PITCH];
  const int across = CEIL_DIV(channels, TILE), row = BLOCK(0) / across, tap = row % taps;
  const int down = CEIL_DIV(outputs, TILE), group = row / taps / down;
  const int c0 = (BLOCK(0) - row * across) * TILE, k0 = (row / taps - group * down) * TILE;
  const i64 first_unit = (i64)group * outputs * taps * channels / UNIT;
  const int lane = THREAD(0) % LANES, first = THREAD(0) / LANES;
  u32 units[STEPS];  // loads that are under way before the first is stored
  UNROLL
  for (int i = 0; i < STEPS; ++i) {
    const int k = k0 + first + i * ROWS, inside = k < outputs && c0 + lane * UNIT < channels;
    units[i] = inside ? weights[first_unit + ((i64)k * taps + tap) * (channels / UNIT) + c0 / UNIT + lane] : 0;
  }
  UNROLL
  for (int i = 0; i < STEPS; ++i) tile[(first + i * ROWS) * PITCH + lane] = units[i];
  BARRIER();
  UNROLL
  for (int i = 0; i < STEPS; ++i) {
    const int c = first + i * ROWS;
    u32 unit = 0;
    UNROLL
    for (int e = 0; e < UNIT; ++e) {
      const int k = (e + lane / 8) % UNIT;  // in an order that reads other banks than the other lanes
      const u32 from = tile[(lane * UNIT + k) * PITCH + c / UNIT] >> (c % UNIT * 8);
      unit |= UNIT == 1 ? from : (from & 0xffu) << (k * 8);
    }
    if (c0 + c < channels && k0 + lane * UNIT < outputs)
      swapped[first_unit + ((i64)(c0 + c) * taps + tap) * (outputs / UNIT) + k0 / UNIT + lane] = unit;
  }
}
