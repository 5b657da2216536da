// Copies between planes of a tensor and pixels with channels innermost, padded to a multiple of 16 bytes, by tiles in
// local memory; and weights for folded pixels. See FoldShape.
// Options: BYTES (2, 4: of an element), VECTOR (elements of a plane per access, 1 to 16 bytes; 0: planes are
// contiguous, 16 bytes per access).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/conv_shapes.h"
#include "kernels/gpu/portable/packed_elements.h"

#define THREADS 256
#define UNIT (16 / BYTES)  // elements of 16 bytes

INLINE void unpack(u32x4 unit, element* v) {
  const u32 parts[] = {unit.x, unit.y, unit.z, unit.w};
  UNROLL
  for (int i = 0; i < UNIT; ++i) v[i] = (element)(parts[i * BYTES / 4] >> i * BYTES % 4 * 8);
}

#define TILE 64  // channels, and pixels unless planes are contiguous
#define PLANE_UNIT (VECTOR == 0 ? UNIT : VECTOR)
#if VECTOR == 0 || VECTOR * BYTES == 16
#define PLANE_PARTS 4
typedef u32x4 plane_unit;
#elif VECTOR * BYTES == 8
#define PLANE_PARTS 2
typedef u64 plane_unit;
#elif VECTOR * BYTES == 4
#define PLANE_PARTS 1
typedef u32 plane_unit;
#else
#define PLANE_PARTS 0
typedef u16 plane_unit;
#endif
#define PITCH (TILE + 4 / BYTES)  // elements: an odd number of banks; contiguous planes have theirs

/// A tile: up to TILE channels by up to TILE pixels of an image.
typedef struct {
  int image, c, x, channels, pixels, pitch;  // channels and pixels that exist
} Tile;

INLINE Tile tile_of(const FoldShape* s) {
  Tile t;
  const int across = CEIL_DIV(s->depth, TILE), along = CEIL_DIV(s->columns, TILE);
  const int tile = BLOCK(0) / across;
  t.c = (BLOCK(0) - tile * across) * TILE;
  t.image = tile / along;
  t.x = (tile - t.image * along) * TILE;
  t.channels = t.image < s->tensor_images ? MIN(TILE, s->channels - t.c) : 0;
  t.pixels = MIN(TILE, s->columns - t.x);
  t.pitch = VECTOR == 0 ? s->columns : PITCH;
  return t;
}

/// Units of the tile's part of the tensor: the first element in the tile and in the tensor of unit `u`.
INLINE int units_of(const Tile* t) {
  return VECTOR == 0 ? t->channels * t->pixels / PLANE_UNIT : t->channels * (TILE / PLANE_UNIT);
}
INLINE int unit_in_tile(const Tile* t, int u, int* pixel) {
  const int c = u / (TILE / PLANE_UNIT);
  *pixel = VECTOR == 0 ? 0 : (u - c * (TILE / PLANE_UNIT)) * PLANE_UNIT;
  return VECTOR == 0 ? u * PLANE_UNIT : c * t->pitch + *pixel;
}
INLINE i64 unit_in_tensor(const FoldShape* s, const Tile* t, int u, int pixel) {
  const i64 at = t->image * s->image + (i64)t->c * s->channel + t->x;
  return VECTOR == 0 ? at + u * PLANE_UNIT : at + (i64)(u / (TILE / PLANE_UNIT)) * s->channel + pixel;
}

/// Elements of a tile move 4 bytes at a time where units have them.
INLINE void plane_to_tile(plane_unit unit, LOCAL element* to) {
  LOCAL u32* const parts = (LOCAL u32*)to;
#if PLANE_PARTS == 4
  parts[0] = unit.x;
  parts[1] = unit.y;
  parts[2] = unit.z;
  parts[3] = unit.w;
#elif PLANE_PARTS == 2
  parts[0] = (u32)unit;
  parts[1] = (u32)(unit >> 32);
#elif PLANE_PARTS == 1
  parts[0] = unit;
#else
  *to = unit;
#endif
}

INLINE plane_unit tile_to_plane(LOCAL const element* from) {
  LOCAL const u32* const parts = (LOCAL const u32*)from;
#if PLANE_PARTS == 4
  plane_unit unit;
  unit.x = parts[0];
  unit.y = parts[1];
  unit.z = parts[2];
  unit.w = parts[3];
  return unit;
#elif PLANE_PARTS == 2
  return parts[0] | (u64)parts[1] << 32;
#elif PLANE_PARTS == 1
  return parts[0];
#else
  return *from;
#endif
}

KERNEL THREADS_PER_BLOCK(THREADS)
    planes_to_pixels(GLOBAL const element* RESTRICT tensor, GLOBAL element* RESTRICT folded, const FoldShape s) {
  SHARED element tile[TILE * PITCH] __attribute__((aligned(16)));
  const Tile t = tile_of(&s);
  const int units = units_of(&t);
  UNROLL
  for (int round = 0; round < TILE * TILE / (THREADS * PLANE_UNIT); ++round) {
    const int u = round * THREADS + THREAD(0);
    int pixel;
    const int to = unit_in_tile(&t, u, &pixel);
    if (u < units && pixel < t.pixels)
      plane_to_tile(*(GLOBAL const plane_unit*)(tensor + unit_in_tensor(&s, &t, u, pixel)), tile + to);
  }
  BARRIER();
  UNROLL
  for (int round = 0; round < TILE * TILE / (THREADS * UNIT); ++round) {
    const int u = round * THREADS + THREAD(0), x = u / (TILE / UNIT), c = u % (TILE / UNIT) * UNIT;
    if (x >= t.pixels || t.c + c >= s.depth) continue;
    element v[UNIT];
    UNROLL
    for (int i = 0; i < UNIT; ++i) v[i] = c + i < t.channels ? tile[(c + i) * t.pitch + x] : 0;
    *(GLOBAL u32x4*)(folded + t.image * s.folded_image + (t.x + x) * s.folded_column + t.c + c) = packed(v);
  }
}

KERNEL THREADS_PER_BLOCK(THREADS)
    pixels_to_planes(GLOBAL const element* RESTRICT folded, GLOBAL element* RESTRICT tensor, const FoldShape s) {
  SHARED element tile[TILE * PITCH] __attribute__((aligned(16)));
  const Tile t = tile_of(&s);
  UNROLL
  for (int round = 0; round < TILE * TILE / (THREADS * UNIT); ++round) {
    const int u = round * THREADS + THREAD(0), x = u / (TILE / UNIT), c = u % (TILE / UNIT) * UNIT;
    if (x >= t.pixels || c >= t.channels) continue;
    element v[UNIT];
    unpack(*(GLOBAL const u32x4*)(folded + t.image * s.folded_image + (t.x + x) * s.folded_column + t.c + c), v);
    UNROLL
    for (int i = 0; i < UNIT; ++i)
      if (c + i < t.channels) tile[(c + i) * t.pitch + x] = v[i];
  }
  BARRIER();
  const int units = units_of(&t);
  UNROLL
  for (int round = 0; round < TILE * TILE / (THREADS * PLANE_UNIT); ++round) {
    const int u = round * THREADS + THREAD(0);
    int pixel;
    const int from = unit_in_tile(&t, u, &pixel);
    if (u < units && pixel < t.pixels)
      *(GLOBAL plane_unit*)(tensor + unit_in_tensor(&s, &t, u, pixel)) = tile_to_plane(tile + from);
  }
}

KERNEL THREADS_PER_BLOCK(THREADS)
    fold_weights(GLOBAL const element* RESTRICT w, GLOBAL element* RESTRICT folded, const FoldedWeightsShape s) {
  const i64 at = (i64)BLOCK(0) * THREADS + THREAD(0), tap = at / s.depth, f = tap / (s.taps_h * s.taps_w);
  const int k = (int)(at - tap * s.depth), taps = (int)(tap - f * s.taps_h * s.taps_w), th = taps / s.taps_w;
  const int block = (int)f / s.channels, c = (int)f - block * s.channels;
  const int fx = block / s.fold_h, fy = block - fx * s.fold_h;
  const int r = fy + s.first_h - th * s.step_h, q = fx + s.first_w - (taps - th * s.taps_w) * s.step_w;
  if (f >= s.rows) return;
  const int inside = k < s.outputs && fx < s.fold_w && r >= 0 && r < s.filter_h && q >= 0 && q < s.filter_w;
  folded[at] = inside ? w[k * s.output + c * s.channel + r * s.row + q * s.column] : 0;
}
