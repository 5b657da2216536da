// Convolution with few channels a group on NVIDIA's matrix units, 16-bit floats, stride 1: a block keeps a tile of
// src with all channels of some groups in local memory, channels innermost; a warp computes eight output channels of
// a group for sixteen pixels at a time. Told by -D: IN, OUT (the same), DIRECTION (0, 1), FILTER (square), REDUCED,
// OUTPUTS (channels of a group: multiples of 8), GROUPS (of a block), TILE_H, TILE_W, WARPS; PLANES where rows are
// innermost in memory (of even width).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable.h"
#include "kernels/gpu/vector.h"
#include "kernels/gpu/local_copy.h"
#include "kernels/gpu/octets.h"
#include "kernels/gpu/matrix_units.h"

#define THREADS (WARPS * 32)
#define CHANNELS (GROUPS * REDUCED)
#define PITCH (CHANNELS + 8)  // so that the pixels of a warp are in different banks
#define IN_H (TILE_H + FILTER - 1)
#define IN_W (TILE_W + FILTER - 1)
#define TAPS (FILTER * FILTER)
#define STEPS (REDUCED / 8)
#define UNITS (GROUPS * OUTPUTS / 8)
#define PIXELS (TILE_H * TILE_W)

// Elements of the weights between taps, and between neighbours in the group's channels of the filter.
#ifdef PLANES
#define TAP_STEP 1
#define CHANNEL_STEP TAPS
#else
#define TAP_STEP (DIRECTION == 0 ? REDUCED : OUTPUTS)
#define CHANNEL_STEP 1
#endif

/// Two neighbours in the reduced channels, `c` and c + 1, for output channel `k` of the group.
INLINE u32 weight_pair(GLOBAL const in_t* w, int tap, int c, int k) {
#if DIRECTION == 0
  GLOBAL const in_t* p = w + k * TAPS * REDUCED + tap * TAP_STEP + c * CHANNEL_STEP;
  return (u32)p[0] | (u32)p[CHANNEL_STEP] << 16;
#else
  GLOBAL const in_t* p = w + c * TAPS * OUTPUTS + (TAPS - 1 - tap) * TAP_STEP + k * CHANNEL_STEP;
  return (u32)p[0] | (u32)p[TAPS * OUTPUTS] << 16;
#endif
}

INLINE void store_pair(GLOBAL out_t* to, const float* v, float alpha, float beta) {
  float scaled[2];
  UNROLL
  for (int u = 0; u < 2; ++u) {
    scaled[u] = v[u] * alpha;
    if (beta != 0) scaled[u] = FMA(beta, LOAD(OUT, to, u), scaled[u]);
  }
#ifdef UNALIGNED
  UNROLL
  for (int u = 0; u < 2; ++u) STORE(OUT, to, u, scaled[u]);
#else
  *(GLOBAL u32*)to = PAIR(scaled[0], scaled[1]);
#endif
}

/// Two channels of a pixel become two pixels of a channel, the second one for the lanes of odd pixels.
INLINE void transpose_pair(float* v, int odd) {
  const float other = __shfl_xor_sync(~0u, odd ? v[0] : v[1], 4);
  v[0] = odd ? other : v[0], v[1] = odd ? v[1] : other;
}

KERNEL THREADS_PER_BLOCK(THREADS)
    grouped_matrix(GLOBAL const in_t* RESTRICT src, GLOBAL const in_t* RESTRICT w, GLOBAL out_t* dst,
                   const GroupedShape g, const float alpha, const float beta) {
  SHARED in_t tile[IN_H * IN_W * PITCH] __attribute__((aligned(16)));
  const int blocks = CEIL_DIV(g.groups, GROUPS), rows = CEIL_DIV(g.dst_h, TILE_H), cols = CEIL_DIV(g.dst_w, TILE_W);
  const int first = BLOCK(0) % blocks * GROUPS, at = BLOCK(0) / blocks, image = at / (rows * cols);
  const int row0 = at / cols % rows * TILE_H, col0 = at % cols * TILE_W, groups = MIN(GROUPS, g.groups - first);
  const int all = g.groups * REDUCED, width = g.groups * OUTPUTS;
#ifdef PLANES
  const int plane = g.dst_h * g.dst_w;
  copy_planes(tile, src + ((i64)image * all + first * REDUCED) * g.src_h * g.src_w, row0 - g.pad_h, col0 - g.pad_w,
              IN_H, IN_W, CHANNELS, PITCH, g.src_h, g.src_w, groups * REDUCED, THREAD(0), THREADS);
#else
  copy_tile(tile, src + (i64)image * g.src_h * g.src_w * all + first * REDUCED, row0 - g.pad_h, col0 - g.pad_w, IN_H,
            IN_W, CHANNELS, PITCH, g.src_h, g.src_w, groups * REDUCED, all, THREAD(0), THREADS);
#endif
  const int warp = THREAD(0) / 32, lane = THREAD(0) % 32, quad = lane / 4, pair = lane % 4 * 2;
  wait_for_copies();
  for (int unit = warp % UNITS; unit < groups * OUTPUTS / 8; unit += WARPS) {
    const int group = unit / (OUTPUTS / 8), k0 = unit % (OUTPUTS / 8) * 8;
    GLOBAL const in_t* filter = w + (i64)(first + group) * TAPS * REDUCED * OUTPUTS;
    u32 b[TAPS][STEPS];
    UNROLL
    for (int t = 0; t < TAPS; ++t) {
      UNROLL
      for (int s = 0; s < STEPS; ++s) b[t][s] = weight_pair(filter, t, s * 8 + pair, k0 + quad);
    }
    LOCAL const in_t* from = tile + group * REDUCED + pair;
    const int channel = (first + group) * OUTPUTS + k0;
#ifdef PLANES
    GLOBAL out_t* to = dst + (((i64)image * width + channel) * g.dst_h + row0) * g.dst_w + col0;
#else
    GLOBAL out_t* to = dst + (((i64)image * g.dst_h + row0) * g.dst_w + col0) * width + channel;
#endif
    for (int m = warp / UNITS * 16; m < PIXELS; m += MAX(1, WARPS / UNITS) * 16) {
      int pixel[2], at_tile[2];
      UNROLL
      for (int h = 0; h < 2; ++h) {
        pixel[h] = m + quad + h * 8;
        const int inside = MIN(pixel[h], PIXELS - 1);
        at_tile[h] = (inside / TILE_W * IN_W + inside % TILE_W) * PITCH;
      }
      float c[4] = {0, 0, 0, 0};
      UNROLL
      for (int t = 0; t < TAPS; ++t) {
        UNROLL
        for (int s = 0; s < STEPS; ++s) {
          u32 a[2];
          UNROLL
          for (int h = 0; h < 2; ++h)
            a[h] = *(LOCAL const u32*)(from + at_tile[h] + (t / FILTER * IN_W + t % FILTER) * PITCH + s * 8);
          multiply_8(a, b[t][s], c);
        }
      }
      UNROLL
      for (int h = 0; h < 2; ++h) {
        const int row = pixel[h] / TILE_W, col = pixel[h] % TILE_W;
#ifdef PLANES
        transpose_pair(c + h * 2, quad % 2);
        GLOBAL out_t* at = to + (i64)(pair + quad % 2) * plane + row * g.dst_w + col / 2 * 2;
#else
        GLOBAL out_t* at = to + (row * g.dst_w + col) * width + pair;
#endif
        if (pixel[h] < PIXELS && row0 + row < g.dst_h && col0 + col < g.dst_w) store_pair(at, c + h * 2, alpha, beta);
      }
    }
  }
}
