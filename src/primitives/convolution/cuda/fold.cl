// Copies between tensors and folded pixels: channels innermost, padded to a multiple of 16 bytes, with the pixels of a
// block of rows and columns, or the padding of the image, as further channels. See FoldShape; what divides indices is
// an option, so that a thread knows the places of its elements. Options: BYTES (2, 4: of an element; 16: FoldShape
// counts units of so many instead), CHANNELS, FOLD_C, FOLD_H, FOLD_W, DEPTH (as in FoldShape), CHANNELS_LAST (of the
// tensor).
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/portable.h"
#include "kernels/gpu/portable/conv_shapes.h"
#include "kernels/gpu/portable/packed_elements.h"

#define THREADS 256
#define UNIT (16 / BYTES)  // elements of 16 bytes
#define UNITS (DEPTH / UNIT)
#define OWN (UNITS <= 4 ? UNITS : 1)  // units that a thread writes: all of a pixel, if they are few
#if BYTES == 16
#define ZERO \
  { 0, 0, 0, 0 }
#else
#define ZERO 0
#endif
#if CHANNELS_LAST
#define CHANNEL_STRIDE(s) 1
#else
#define CHANNEL_STRIDE(s) (s).channel
#endif

/// Element `f` of a folded pixel: its channel and the offset of its row and column.
typedef struct {
  int c, fy, fx;
} Element;

INLINE Element element_at(int f) {
  Element e;
  const int t = FOLD_H * FOLD_W == 1 ? 0 : f / FOLD_C;
  e.c = f - t * FOLD_C;
  e.fx = t / FOLD_H;
  e.fy = t - e.fx * FOLD_H;
  return e;
}

/// Any tensor to folded pixels: threads follow these.
KERNEL THREADS_PER_BLOCK(THREADS)
    fold(GLOBAL const element* RESTRICT tensor, GLOBAL element* RESTRICT folded, const FoldShape s) {
  const int pieces = UNITS / OWN, chunks = CEIL_DIV(s.columns * pieces, THREADS), row = BLOCK(0) / chunks;
  const int piece = (BLOCK(0) - row * chunks) * THREADS + THREAD(0), x = piece / pieces;
  const int image = row / s.rows, y = row - image * s.rows, first = (piece - x * pieces) * OWN;
  if (x >= s.columns) return;
  const int top = y * FOLD_H - s.pad_h, left = x * FOLD_W - s.pad_w, exists = image < s.tensor_images;
  GLOBAL const element* from = tensor + image * s.image;
  GLOBAL element* to = folded + image * s.folded_image + y * s.folded_row + x * s.folded_column;
  UNROLL
  for (int u = 0; u < OWN; ++u) {
    element v[UNIT];
    UNROLL
    for (int i = 0; i < UNIT; ++i) {
      const Element e = element_at((first + u) * UNIT + i);
      const int h = top + e.fy, w = left + e.fx;
      element value = ZERO;
      if (exists && e.c < CHANNELS && e.fx < FOLD_W && h >= 0 && h < s.height && w >= 0 && w < s.width)
        value = from[e.c * CHANNEL_STRIDE(s) + h * s.row + w * s.column];
      v[i] = value;
    }
    *(GLOBAL u32x4*)(to + (first + u) * UNIT) = packed(v);
  }
}

#define PER_THREAD 8  // elements of the tensor

/// Folded pixels to a tensor: threads follow its rows, neighbours along the innermost dimension. Without padding.
KERNEL THREADS_PER_BLOCK(THREADS)
    unfold(GLOBAL const element* RESTRICT folded, GLOBAL element* RESTRICT tensor, const FoldShape s) {
  const int inner = CHANNELS_LAST ? CHANNELS : s.width, outer = CHANNELS_LAST ? s.width : CHANNELS;
  const int chunks = CEIL_DIV(inner * outer, THREADS * PER_THREAD), row = BLOCK(0) / chunks;
  const int image = row / s.height, h = row - image * s.height, y = h / FOLD_H, fy = h - y * FOLD_H;
  const int first = (BLOCK(0) - row * chunks) * THREADS * PER_THREAD + THREAD(0);
  GLOBAL const element* from = folded + image * s.folded_image + y * s.folded_row;
  GLOBAL element* to = tensor + image * s.image + (i64)h * s.row;
  const int step_o = THREADS / inner, step_i = THREADS - step_o * inner;
  int o = first / inner, i = first - o * inner;
  element v[PER_THREAD];
  int at[PER_THREAD];
  UNROLL
  for (int n = 0; n < PER_THREAD; ++n) {
    const int c = CHANNELS_LAST ? i : o, w = CHANNELS_LAST ? o : i, x = w / FOLD_W, fx = w - x * FOLD_W;
    at[n] = o < outer ? c * CHANNEL_STRIDE(s) + w * s.column : -1;
    if (at[n] >= 0) v[n] = from[x * s.folded_column + (fx * FOLD_H + fy) * FOLD_C + c];
    i += step_i;
    o += step_o + (i >= inner);
    if (i >= inner) i -= inner;
  }
  UNROLL
  for (int n = 0; n < PER_THREAD; ++n)
    if (at[n] >= 0) to[at[n]] = v[n];
}
