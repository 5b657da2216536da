// What the depthwise kernels on matrix units share: a block has rows of WIDTH pixels of CHANNELS channels, a warp
// PER_WARP times 16 pixels of eight of them, and walks down strips. Where planes are narrow, IMAGES of them lie side by
// side, each in 16 columns: TILE_W. Included before other headers.
// SPDX-License-Identifier: MIT
#pragma once

#define GROUPS (CHANNELS / 8)
#define PARTS CEIL_DIV(TILE_W, 16 * PER_WARP)  // of a row
#define WIDTH (PARTS * (16 * PER_WARP))
#define THREADS (GROUPS * PARTS * 32)
#define PITCH (CHANNELS + (GROUPS % 2 ? 0 : 8))  // so that the pixels of a warp are in different banks
#define TAPS (FILTER * FILTER)
#define IN_W (TILE_W + FILTER - 1)
#define IN_STEP (IMAGES == 1 ? 16 : IN_W)  // between the pixels of src that 16 pixels meet, and the next ones
#include "kernels/gpu/portable.h"
#include "kernels/gpu/vector.h"
#include "kernels/gpu/local_copy.h"
#include "kernels/gpu/matrix_units.h"
#include "kernels/gpu/column_tile.h"

#define BYTES 2
#define PIECE_STEP (THREADS / GROUPS * PITCH * BYTES)  // between a thread's pieces in local memory

/// The place of the thread's first piece of 16 bytes in a row.
INLINE u32 piece_address(u32 row) { return row + PIECE_AT(THREAD(0)) * BYTES; }

/// Where an array begins in local memory: kept in a register, or the compiler asks for it anew each time.
INLINE u32 kept_address(LOCAL const in_t* p) { return __shfl_sync(~0u, local_address(p), 0); }

INLINE void copy_16(u32 to, GLOBAL const in_t* from, int inside) {
#ifdef UNALIGNED
  u32 v[4] = {0, 0, 0, 0};
  if (inside) {
    UNROLL
    for (int u = 0; u < 8; ++u) v[u / 2] |= (u32)from[u] << (u % 2 * 16);
  }
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
               : "memory");
#else
  asm volatile(
      "{.reg .pred none; setp.eq.s32 none, %2, 0; "
      "cp.async.cg.shared.global.L2::128B [%0], [%1], 16, none;}" ::"r"(to),
      "l"(from), "r"(inside)
      : "memory");
#endif
}

/// A row: `at` says where the thread's pieces come from, less than 0 for zeros.
INLINE void copy_pieces(u32 to, GLOBAL const in_t* row, const int* at, const int each, const int pieces) {
  UNROLL
  for (int k = 0; k < each; ++k)
    if ((k + 1) * THREADS <= pieces || THREAD(0) + k * THREADS < pieces)
      copy_16(to + k * PIECE_STEP, row + at[k], at[k] >= 0);
}

INLINE ColumnTile images_column_tile(int index, const DepthwiseShape* d) {
  ColumnTile s = column_tile_at(index, d->dst_h, d->dst_w, d->band);
  s.image *= IMAGES;
  return s;
}

/// Whether rows of two strips lie in the same columns of as many images.
INLINE int alike(const DepthwiseShape* d, ColumnTile a, ColumnTile b) {
  return a.col0 == b.col0 && (IMAGES == 1 || MIN(d->images - a.image, IMAGES) == MIN(d->images - b.image, IMAGES));
}

/// Where the thread's pieces of a row lie, from that row of the first image on, less than 0 for those outside: `width`
/// pixels of each image from col0 on, of planes of h rows and w columns with `channels` from the block's first one on.
INLINE void place_row(int* at, const int each, const int width, int col0, int images, int h, int w, int channels,
                      int all) {
  UNROLL
  for (int k = 0; k < each; ++k) {
    const int i = THREAD(0) + k * THREADS, pixel = i / GROUPS, image = pixel / width, col = col0 + pixel % width;
    const int inside = image < MIN(images, IMAGES) && (u32)col < (u32)w && i % GROUPS * 8 < channels;
    at[k] = inside ? (image * h * w + col) * all + i % GROUPS * 8 : -1;
  }
}
