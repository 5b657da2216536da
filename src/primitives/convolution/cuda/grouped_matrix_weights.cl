// The gradient of the weights of grouped_matrix.cl: a block takes every BLOCKS(0)-th tile of pixels, with x and dy in
// local memory, and writes what these give; add_partials sums that up. A warp owns eight input by eight output
// channels of a group: products over sixteen pixels at a time, of two taps at once. Told by -D: IN, OUT, FILTER (square),
// REDUCED, OUTPUTS (channels of a group of x and dy: multiples of 8), GROUPS (of a block), TILE_H, TILE_W, WARPS.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable.h"
#include "kernels/gpu/vector.h"
#include "kernels/gpu/local_copy.h"
#include "kernels/gpu/partials.h"

#define THREADS (WARPS * 32)
#define CHANNELS (GROUPS * REDUCED)
#define FILTERS (GROUPS * OUTPUTS)
#define PITCH (CHANNELS + 8)  // so that the pixels of a warp are in different banks
#define PITCH_DY (FILTERS + 8)
#define IN_H (TILE_H + FILTER - 1)
#define IN_W (TILE_W + FILTER - 1)
#define TAPS (FILTER * FILTER)
#define PAIRS ((TAPS + 1) / 2)
#define UNITS (GROUPS * (OUTPUTS / 8) * (REDUCED / 8))
#define SHARES (WARPS / UNITS)  // warps that share the pixels of a unit
#define PIXELS (TILE_H * TILE_W)
#define STRIPS CEIL_DIV(PIXELS, 16)
#if IN_KIND == KIND_bf16
#define MMA_TYPE "bf16"
#else
#define MMA_TYPE "f16"
#endif

/// c (16 x 8) += a (16 x 16) b (16 x 8).
INLINE void multiply_16(const u32* a, const u32* b, float* c) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32." MMA_TYPE "." MMA_TYPE ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// Blocks of 8 x 8, whose rows each eighth of the warp names, the other way round.
INLINE void load_turned_4(LOCAL const in_t* p, u32* v) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"((u32)__cvta_generic_to_shared(p)));
}
INLINE void load_turned_2(LOCAL const in_t* p, u32* v) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(v[0]), "=r"(v[1])
               : "r"((u32)__cvta_generic_to_shared(p)));
}

INLINE int tap_offset(int tap) { return (tap / FILTER * IN_W + tap % FILTER) * PITCH; }

/// partials[block][filter][tap][channel].
KERNEL THREADS_A_BLOCK(THREADS)
grouped_matrix_weights(GLOBAL const in_t* RESTRICT x, GLOBAL const in_t* RESTRICT dy, GLOBAL sum_t* partials,
                       const GroupedShape g, const int tiles) {
  SHARED in_t x_tile[IN_H * IN_W * PITCH] __attribute__((aligned(16)));
  SHARED in_t dy_tile[STRIPS * 16 * PITCH_DY] __attribute__((aligned(16)));
  const int rows = CEIL_DIV(g.dst_h, TILE_H), cols = CEIL_DIV(g.dst_w, TILE_W);
  const int first = BLOCK(1) * GROUPS, groups = MIN(GROUPS, g.groups - first);
  const int channels = g.groups * REDUCED, filters = g.groups * OUTPUTS;
  const int warp = THREAD(0) / 32, lane = THREAD(0) % 32, unit = warp / SHARES, share = warp % SHARES;
  const int group = unit / ((OUTPUTS / 8) * (REDUCED / 8));
  const int k0 = unit / (REDUCED / 8) % (OUTPUTS / 8) * 8, c0 = unit % (REDUCED / 8) * 8;
  const int pixel_of_lane = lane / 16 * 8 + lane % 8, second_tap = lane / 8 % 2;
  // Pixels behind the last one count as zeros of dy.
  for (int i = PIXELS * PITCH_DY + THREAD(0); i < STRIPS * 16 * PITCH_DY; i += THREADS) dy_tile[i] = 0;
  float acc[PAIRS][4];
  UNROLL for (int t = 0; t < PAIRS; ++t) UNROLL for (int u = 0; u < 4; ++u) acc[t][u] = 0;
  for (int t = BLOCK(0); t < tiles; t += BLOCKS(0)) {
    const int image = t / (rows * cols), row0 = t / cols % rows * TILE_H, col0 = t % cols * TILE_W;
    BARRIER();
    copy_tile(x_tile, x + (i64)image * g.src_h * g.src_w * channels + first * REDUCED, row0 - g.pad_h, col0 - g.pad_w,
              IN_H, IN_W, CHANNELS, PITCH, g.src_h, g.src_w, groups * REDUCED, channels, THREAD(0), THREADS);
    copy_tile(dy_tile, dy + (i64)image * g.dst_h * g.dst_w * filters + first * OUTPUTS, row0, col0, TILE_H, TILE_W,
              FILTERS, PITCH_DY, g.dst_h, g.dst_w, groups * OUTPUTS, filters, THREAD(0), THREADS);
    wait_for_copies();
    for (int strip = share; strip < STRIPS; strip += SHARES) {
      const int m = strip * 16 + pixel_of_lane, inside = MIN(m, PIXELS - 1);
      LOCAL const in_t* from =
          x_tile + (inside / TILE_W * IN_W + inside % TILE_W) * PITCH + group * REDUCED + c0;
      u32 b[2];
      load_turned_2(dy_tile + (strip * 16 + lane % 16) * PITCH_DY + group * OUTPUTS + k0, b);
      UNROLL for (int p = 0; p < PAIRS; ++p) {
        u32 a[4];
        const int last = TAPS - 1;
        load_turned_4(from + (second_tap ? tap_offset(MIN(2 * p + 1, last)) : tap_offset(2 * p)), a);
        multiply_16(a, b, acc[p]);
      }
    }
  }
  // The shares of a unit in order.
  LOCAL float* sums = (LOCAL float*)x_tile;
  for (int s = 1; s < SHARES; ++s) {
    BARRIER();
    if (share == s)
      UNROLL for (int p = 0; p < PAIRS; ++p)
        UNROLL for (int u = 0; u < 4; ++u) sums[((unit * PAIRS + p) * 4 + u) * 32 + lane] = acc[p][u];
    BARRIER();
    if (share == 0)
      UNROLL for (int p = 0; p < PAIRS; ++p)
        UNROLL for (int u = 0; u < 4; ++u) acc[p][u] += sums[((unit * PAIRS + p) * 4 + u) * 32 + lane];
  }
  if (share != 0 || group >= groups) return;
  GLOBAL sum_t* results = (GLOBAL sum_t*)align16(partials) +
                          ((i64)BLOCK(0) * filters + (first + group) * OUTPUTS + k0) * TAPS * REDUCED + c0;
  UNROLL for (int p = 0; p < PAIRS; ++p)
    UNROLL for (int u = 0; u < 4; ++u) {
      const int tap = 2 * p + u / 2, k = lane % 4 * 2 + u % 2, c = lane / 4;
      if (tap < TAPS) results[(k * TAPS + tap) * REDUCED + c] = acc[p][u];
    }
}
