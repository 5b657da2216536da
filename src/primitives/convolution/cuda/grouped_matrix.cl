// Grouped convolution with few channels per group on NVIDIA matrix units, 16-bit floats, stride 1, forward and backward
// data. A block holds a tile of src with all channels of GROUPS groups in local memory, channels innermost; a warp
// computes eight output channels of a group for sixteen pixels at a time.
// Options: IN, OUT (the same), DIRECTION (0, 1), FILTER (square), REDUCED, OUTPUTS (channels per group: multiples of
// 8), GROUPS (per block), TILE_H, TILE_W, WARPS; PLANES for NCHW tensors (of even width), otherwise NHWC.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"
#include "kernels/gpu/portable/local_copy.h"
#include "kernels/gpu/portable/octets.h"
#include "kernels/gpu/portable/matrix_units.h"

#define THREADS (WARPS * 32)
#define CHANNELS (GROUPS * REDUCED)
#define PITCH (CHANNELS + 8)  // elements per pixel: the pixels of a warp are in different banks
#define IN_H (TILE_H + FILTER - 1)
#define IN_W (TILE_W + FILTER - 1)
#define TAPS (FILTER * FILTER)
#define STEPS (REDUCED / 8)
#define UNITS (GROUPS * OUTPUTS / 8)
#define PIXELS (TILE_H * TILE_W)

// Strides of the weights in elements: between taps, and between a group's channels of a filter.
#ifdef PLANES
#define TAP_STEP 1
#define CHANNEL_STEP TAPS
#else
#define TAP_STEP (DIRECTION == 0 ? REDUCED : OUTPUTS)
#define CHANNEL_STEP 1
#endif

/// Weights of the reduced channels c and c + 1 for output channel k of the group.
INLINE u32 weight_pair(GLOBAL const in_t* w, int tap, int c, int k) {
#if DIRECTION == 0
  GLOBAL const in_t* p = w + k * TAPS * REDUCED + tap * TAP_STEP + c * CHANNEL_STEP;
  return (u32)p[0] | (u32)p[CHANNEL_STEP] << 16;
#else
  GLOBAL const in_t* p = w + c * TAPS * OUTPUTS + (TAPS - 1 - tap) * TAP_STEP + k * CHANNEL_STEP;
  return (u32)p[0] | (u32)p[TAPS * OUTPUTS] << 16;
#endif
}

INLINE void store_pair(GLOBAL out_t* dst, const float* v, float alpha, float beta) {
  float scaled[2];
  UNROLL
  for (int u = 0; u < 2; ++u) {
    scaled[u] = v[u] * alpha;
    if (beta != 0) scaled[u] = FMA(beta, LOAD(OUT, dst, u), scaled[u]);
  }
#ifdef UNALIGNED
  UNROLL
  for (int u = 0; u < 2; ++u) STORE(OUT, dst, u, scaled[u]);
#else
  *(GLOBAL u32*)dst = PAIR(scaled[0], scaled[1]);
#endif
}

/// Transposes 2 x 2 between lanes of adjacent pixels: two channels of a pixel become two pixels of a channel, the first
/// channel in lanes of even pixels.
INLINE void transpose_pair(float* v, int odd) {
  const float other = __shfl_xor_sync(~0u, odd ? v[0] : v[1], 4);
  v[0] = odd ? other : v[0];
  v[1] = odd ? v[1] : other;
}

KERNEL THREADS_PER_BLOCK(THREADS)
    grouped_matrix(GLOBAL const in_t* RESTRICT src, GLOBAL const in_t* RESTRICT w, GLOBAL out_t* dst,
                   const GroupedShape g, const float alpha, const float beta) {
  SHARED in_t tile[IN_H * IN_W * PITCH] __attribute__((aligned(16)));
  const int group_blocks = CEIL_DIV(g.groups, GROUPS), rows = CEIL_DIV(g.dst_h, TILE_H),
            cols = CEIL_DIV(g.dst_w, TILE_W);
  const int first_group = BLOCK(0) % group_blocks * GROUPS, tile_index = BLOCK(0) / group_blocks,
            image = tile_index / (rows * cols);
  const int row0 = tile_index / cols % rows * TILE_H, col0 = tile_index % cols * TILE_W,
            groups = MIN(GROUPS, g.groups - first_group);
  const int src_channels = g.groups * REDUCED, dst_channels = g.groups * OUTPUTS;
#ifdef PLANES
  const int plane = g.dst_h * g.dst_w;
  copy_planes(tile, src + ((i64)image * src_channels + first_group * REDUCED) * g.src_h * g.src_w, row0 - g.pad_h,
              col0 - g.pad_w, IN_H, IN_W, CHANNELS, PITCH, g.src_h, g.src_w, groups * REDUCED, THREAD(0), THREADS);
#else
  copy_tile(tile, src + (i64)image * g.src_h * g.src_w * src_channels + first_group * REDUCED, row0 - g.pad_h,
            col0 - g.pad_w, IN_H, IN_W, CHANNELS, PITCH, g.src_h, g.src_w, groups * REDUCED, src_channels, THREAD(0),
            THREADS);
#endif
  const int warp = THREAD(0) / 32, lane = THREAD(0) % 32, quad = lane / 4, pair = lane % 4 * 2;
  wait_for_all_copies();
  for (int unit = warp % UNITS; unit < groups * OUTPUTS / 8; unit += WARPS) {
    const int group = unit / (OUTPUTS / 8), k0 = unit % (OUTPUTS / 8) * 8;
    GLOBAL const in_t* filter = w + (i64)(first_group + group) * TAPS * REDUCED * OUTPUTS;
    u32 b[TAPS][STEPS];
    UNROLL
    for (int t = 0; t < TAPS; ++t) {
      UNROLL
      for (int s = 0; s < STEPS; ++s) b[t][s] = weight_pair(filter, t, s * 8 + pair, k0 + quad);
    }
    LOCAL const in_t* src_tile = tile + group * REDUCED + pair;
    const int channel = (first_group + group) * OUTPUTS + k0;
#ifdef PLANES
    GLOBAL out_t* dst_tile = dst + (((i64)image * dst_channels + channel) * g.dst_h + row0) * g.dst_w + col0;
#else
    GLOBAL out_t* dst_tile = dst + (((i64)image * g.dst_h + row0) * g.dst_w + col0) * dst_channels + channel;
#endif
    for (int m = warp / UNITS * 16; m < PIXELS; m += MAX(1, WARPS / UNITS) * 16) {
      int pixel[2], tile_offset[2];
      UNROLL
      for (int h = 0; h < 2; ++h) {
        pixel[h] = m + quad + h * 8;
        const int inside = MIN(pixel[h], PIXELS - 1);
        tile_offset[h] = (inside / TILE_W * IN_W + inside % TILE_W) * PITCH;
      }
      float c[4] = {0, 0, 0, 0};
      UNROLL
      for (int t = 0; t < TAPS; ++t) {
        UNROLL
        for (int s = 0; s < STEPS; ++s) {
          u32 a[2];
          UNROLL
          for (int h = 0; h < 2; ++h)
            a[h] = *(LOCAL const u32*)(src_tile + tile_offset[h] + (t / FILTER * IN_W + t % FILTER) * PITCH + s * 8);
          mma_16x8x8(a, b[t][s], c);
        }
      }
      UNROLL
      for (int h = 0; h < 2; ++h) {
        const int row = pixel[h] / TILE_W, col = pixel[h] % TILE_W;
#ifdef PLANES
        transpose_pair(c + h * 2, quad % 2);
        GLOBAL out_t* pair_at = dst_tile + (i64)(pair + quad % 2) * plane + row * g.dst_w + col / 2 * 2;
#else
        GLOBAL out_t* pair_at = dst_tile + (row * g.dst_w + col) * dst_channels + pair;
#endif
        if (pixel[h] < PIXELS && row0 + row < g.dst_h && col0 + col < g.dst_w)
          store_pair(pair_at, c + h * 2, alpha, beta);
      }
    }
  }
}
