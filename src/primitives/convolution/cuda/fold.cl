// Copies between tensors of 16-bit elements and folded pixels: channels innermost, padded to a multiple of 8, with the
// pixels of a block of rows and columns, or the padding of the image, as further channels. See FoldShape.
// Options: BYTES (2, 4: of an element), VECTOR (elements of a plane per access, 1 to 16 bytes; 0: planes are
// contiguous, 16 bytes per access).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/conv_shapes.h"

#define THREADS 256
#define UNIT (16 / BYTES)  // elements of 16 bytes
#if BYTES == 4
typedef u32 element;
#else
typedef u16 element;
#endif

/// Element `f` of a folded pixel: its channel and the offset of its row and column.
typedef struct {
  int c, fy, fx;
} Element;

INLINE Element element_at(const FoldShape* s, int f) {
  Element e;
  const int t = f / s->fold_c;
  e.c = f - t * s->fold_c;
  e.fx = t / s->fold_h;
  e.fy = t - e.fx * s->fold_h;
  return e;
}

INLINE void next_element(const FoldShape* s, Element* e) {
  if (++e->c < s->fold_c) return;
  e->c = 0;
  if (++e->fy < s->fold_h) return;
  e->fy = 0;
  ++e->fx;
}

/// The offset in an image of the tensor of an element of pixel (y, x), or -1 if there is none.
INLINE int offset_in_image(const FoldShape* s, const Element* e, int y, int x) {
  const int h = y * s->fold_h + e->fy - s->pad_h, w = x * s->fold_w + e->fx - s->pad_w;
  const int inside =
      e->c < s->channels && e->fx < s->fold_w && x < s->columns && h >= 0 && h < s->height && w >= 0 && w < s->width;
  return inside ? e->c * s->channel + h * s->row + w * s->column : -1;
}

INLINE u32x4 packed(const element* v) {
  u32x4 unit;
#if BYTES == 4
  unit.x = v[0];
  unit.y = v[1];
  unit.z = v[2];
  unit.w = v[3];
#else
  unit.x = v[0] | (u32)v[1] << 16;
  unit.y = v[2] | (u32)v[3] << 16;
  unit.z = v[4] | (u32)v[5] << 16;
  unit.w = v[6] | (u32)v[7] << 16;
#endif
  return unit;
}

INLINE void unpack(u32x4 unit, element* v) {
  const u32 parts[] = {unit.x, unit.y, unit.z, unit.w};
  UNROLL
  for (int i = 0; i < UNIT; ++i) v[i] = (element)(parts[i * BYTES / 4] >> i * BYTES % 4 * 8);
}

/// Any tensor to folded pixels: threads follow these, 16 bytes each.
KERNEL THREADS_PER_BLOCK(THREADS)
    fold(GLOBAL const element* RESTRICT tensor, GLOBAL element* RESTRICT folded, const FoldShape s) {
  const int units = s.depth / UNIT, chunks = CEIL_DIV(s.columns * units, THREADS);
  const int row = BLOCK(0) / chunks, unit = (BLOCK(0) - row * chunks) * THREADS + THREAD(0);
  const int image = row / s.rows, y = row - image * s.rows, x = unit / units, f = (unit - x * units) * UNIT;
  if (x >= s.columns) return;
  GLOBAL const element* from = tensor + image * s.image;
  Element e = element_at(&s, f);
  element v[UNIT];
  UNROLL
  for (int i = 0; i < UNIT; ++i) {
    const int at = image < s.tensor_images ? offset_in_image(&s, &e, y, x) : -1;
    v[i] = at >= 0 ? from[at] : 0;
    next_element(&s, &e);
  }
  *(GLOBAL u32x4*)(folded + image * s.folded_image + y * s.folded_row + x * s.folded_column + f) = packed(v);
}

#define PER_THREAD 8  // elements of the tensor

/// Folded pixels to a tensor: threads follow its rows, neighbours along the innermost dimension. Without padding.
KERNEL THREADS_PER_BLOCK(THREADS)
    unfold(GLOBAL const element* RESTRICT folded, GLOBAL element* RESTRICT tensor, const FoldShape s) {
  const int inner = s.channel == 1 ? s.channels : s.width, outer = s.channel == 1 ? s.width : s.channels;
  const int chunks = CEIL_DIV(inner * outer, THREADS * PER_THREAD), row = BLOCK(0) / chunks;
  const int image = row / s.height, h = row - image * s.height, y = h / s.fold_h, fy = h - y * s.fold_h;
  const int first = (BLOCK(0) - row * chunks) * THREADS * PER_THREAD + THREAD(0);
  GLOBAL const element* from = folded + image * s.folded_image + y * s.folded_row;
  GLOBAL element* to = tensor + image * s.image + (i64)h * s.row;
  const int step_o = THREADS / inner, step_i = THREADS - step_o * inner;
  int o = first / inner, i = first - o * inner;
  element v[PER_THREAD];
  int at[PER_THREAD];
  UNROLL
  for (int n = 0; n < PER_THREAD; ++n) {
    const int c = s.channel == 1 ? i : o, w = s.channel == 1 ? o : i, x = w / s.fold_w, fx = w - x * s.fold_w;
    at[n] = o < outer ? c * s.channel + w * s.column : -1;
    v[n] = at[n] >= 0 ? from[x * s.folded_column + (fx * s.fold_h + fy) * s.fold_c + c] : 0;
    i += step_i;
    o += step_o + (i >= inner);
    if (i >= inner) i -= inner;
  }
  UNROLL
  for (int n = 0; n < PER_THREAD; ++n)
    if (at[n] >= 0) to[at[n]] = v[n];
}

// Planes to pixels and back, without a fold: tiles through local memory.
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
