// Shared by the depthwise kernels on matrix units. Rows of WIDTH pixels by CHANNELS channels are processed per block,
// 16 * PER_WARP pixels by eight channels per warp, row by row through column tiles. For narrow planes IMAGES images are
// side by side in the row, with TILE_W = 16 columns each. Included before other headers. Chunks are 16 bytes.
// SPDX-License-Identifier: MIT
#pragma once

#define GROUPS (CHANNELS / 8)
#define PARTS CEIL_DIV(TILE_W, 16 * PER_WARP)  // warps per row
#define WIDTH (PARTS * (16 * PER_WARP))
#define THREADS (GROUPS * PARTS * 32)
#define PITCH (CHANNELS + (GROUPS % 2 ? 0 : 8))  // elements per pixel: the pixels of a warp are in different banks
#define TAPS (FILTER * FILTER)
#define IN_W (TILE_W + FILTER - 1)
#define IN_STEP (IMAGES == 1 ? 16 : IN_W)  // src pixels between the inputs of two groups of 16 pixels
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/vector.h"
#include "kernels/gpu/portable/local_copy.h"
#include "kernels/gpu/portable/matrix_units.h"
#include "kernels/gpu/portable/column_tile.h"

#define BYTES 2
#define CHUNK_STEP_BYTES (THREADS / GROUPS * PITCH * BYTES)  // between a thread's chunks of a row

/// Local memory address of the thread's first chunk of a row.
INLINE u32 chunk_address(u32 row) { return row + CHUNK_AT(THREAD(0)) * BYTES; }

/// Local memory address of an array. The shuffle keeps it in a register: otherwise the compiler recomputes it per use.
INLINE u32 address_in_register(LOCAL const in_t* p) { return __shfl_sync(~0u, local_address(p), 0); }

INLINE void copy_16(u32 smem, GLOBAL const in_t* src, int inside) {
#ifdef UNALIGNED
  u32 v[4] = {0, 0, 0, 0};
  if (inside) {
    UNROLL
    for (int u = 0; u < 8; ++u) v[u / 2] |= (u32)src[u] << (u % 2 * 16);
  }
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(smem), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
               : "memory");
#else
  asm volatile(
      "{.reg .pred none; setp.eq.s32 none, %2, 0; "
      "cp.async.cg.shared.global.L2::128B [%0], [%1], 16, none;}" ::"r"(smem),
      "l"(src), "r"(inside)
      : "memory");
#endif
}

/// Copies the thread's chunks of a row; negative offsets give zeros.
INLINE void copy_chunks(u32 smem, GLOBAL const in_t* row, const int* offsets, const int chunks_per_thread,
                        const int chunks) {
  UNROLL
  for (int k = 0; k < chunks_per_thread; ++k)
    if ((k + 1) * THREADS <= chunks || THREAD(0) + k * THREADS < chunks)
      copy_16(smem + k * CHUNK_STEP_BYTES, row + offsets[k], offsets[k] >= 0);
}

INLINE ColumnTile images_column_tile(int index, const DepthwiseShape* d) {
  ColumnTile tile = column_tile_at(index, d->dst_h, d->dst_w, d->band);
  tile.image *= IMAGES;
  return tile;
}

/// Whether two column tiles have the same columns and number of images, hence the same chunk offsets.
INLINE int same_columns(const DepthwiseShape* d, ColumnTile a, ColumnTile b) {
  return a.col0 == b.col0 && (IMAGES == 1 || MIN(d->images - a.image, IMAGES) == MIN(d->images - b.image, IMAGES));
}

/// Element offsets of the thread's chunks from a row of the first image on, negative outside: per image `width` pixels
/// from col0 on, of planes of h rows and w columns. `channels` remain from the block's first channel on; pixels are
/// `pixel_stride` elements apart.
INLINE void locate_row_chunks(int* offsets, const int chunks_per_thread, const int width, int col0, int images, int h,
                              int w, int channels, int pixel_stride) {
  UNROLL
  for (int k = 0; k < chunks_per_thread; ++k) {
    const int i = THREAD(0) + k * THREADS, pixel = i / GROUPS, image = pixel / width, col = col0 + pixel % width;
    const int inside = image < MIN(images, IMAGES) && (u32)col < (u32)w && i % GROUPS * 8 < channels;
    offsets[k] = inside ? (image * h * w + col) * pixel_stride + i % GROUPS * 8 : -1;
  }
}
