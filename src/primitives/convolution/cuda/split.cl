// Splits elements of two packed fp32 tensors into three bf16 that add up to them, exactly: x = high + middle + low,
// each the rounding of what the parts before leave. All low parts of a tensor come first, then the high, then the
// middle ones.
// SPDX-License-Identifier: MIT
#include "kernels/gpu/portable/bf16_parts.h"

#define THREADS 256
#define UNIT 8  // elements of a thread

typedef struct {
  u32 low, high, middle, outside;
} Split;

INLINE u32 pair_of(u16 first, u16 second) { return first | (u32)second << 16; }

INLINE u16 round_off(float* v) {
  const u16 part = bf16_of_float(*v);
  *v -= FLOAT_OF_BITS((u32)part << 16);
  return part;
}

INLINE Split split_pair(u32 first, u32 second) {
  float a = FLOAT_OF_BITS(first), b = FLOAT_OF_BITS(second);
  Split s;
  const u16 high_a = round_off(&a), high_b = round_off(&b), middle_a = round_off(&a), middle_b = round_off(&b);
  s.high = pair_of(high_a, high_b);
  s.middle = pair_of(middle_a, middle_b);
  s.low = pair_of(bf16_of_float(a), bf16_of_float(b));
  s.outside = has_no_parts(first) | has_no_parts(second);
  return s;
}

/// Stores the parts of UNIT elements, whose bits are in `v`, at element `at` of each part.
INLINE void store_parts(GLOBAL u32* to, i64 at, i64 size, const u32* v, GLOBAL u32* outside) {
  const Split a = split_pair(v[0], v[1]), b = split_pair(v[2], v[3]), c = split_pair(v[4], v[5]),
              d = split_pair(v[6], v[7]);
  u32x4 low, high, middle;
  low.x = a.low;
  low.y = b.low;
  low.z = c.low;
  low.w = d.low;
  high.x = a.high;
  high.y = b.high;
  high.z = c.high;
  high.w = d.high;
  middle.x = a.middle;
  middle.y = b.middle;
  middle.z = c.middle;
  middle.w = d.middle;
  *(GLOBAL u32x4*)(to + at / 2) = low;
  *(GLOBAL u32x4*)(to + (size + at) / 2) = high;
  *(GLOBAL u32x4*)(to + (2 * size + at) / 2) = middle;
  if (a.outside | b.outside | c.outside | d.outside) *outside = 1;
}

/// Sizes are multiples of UNIT. *outside becomes 1 if an element is neither 0 nor within the limits.
KERNEL THREADS_PER_BLOCK(THREADS)
    split_floats(GLOBAL const u32* RESTRICT first, GLOBAL u32* RESTRICT first_parts, const i64 first_size,
                 GLOBAL const u32* RESTRICT second, GLOBAL u32* RESTRICT second_parts, const i64 second_size,
                 GLOBAL u32* outside) {
  i64 at = ((i64)BLOCK(0) * THREADS + THREAD(0)) * UNIT, size = first_size;
  GLOBAL const u32* from = first;
  GLOBAL u32* to = first_parts;
  if (at >= first_size) {
    at -= first_size;
    size = second_size;
    from = second;
    to = second_parts;
  }
  if (at >= size) return;
  const u32x4 a = *(GLOBAL const u32x4*)(from + at), b = *(GLOBAL const u32x4*)(from + at + 4);
  const u32 v[UNIT] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
  store_parts(to, at, size, v, outside);
}

#define TILE 64  // pixels and channels of a block
#define FEW 16

/// The same of a tensor (images, channels, pixels), whose images and planes begin every `image_pitch` and `plane_pitch`
/// elements; its parts are (images, pixels, channels). A block per image and tile; channels are a multiple of UNIT.
KERNEL THREADS_PER_BLOCK(THREADS)
    split_planes(GLOBAL const u32* RESTRICT from, GLOBAL u32* RESTRICT to, const int channels, const int pixels,
                 const i64 image_pitch, const i64 plane_pitch, const i64 size, GLOBAL u32* outside) {
  SHARED u32 tile[TILE * (TILE + 1)];
  const int across = CEIL_DIV(channels, TILE), down = CEIL_DIV(pixels, TILE);
  const int row = BLOCK(0) / across, image = row / down;
  const int c0 = (BLOCK(0) - row * across) * TILE, p0 = (row - image * down) * TILE;
  const int lane = THREAD(0) % TILE;
  from += image * image_pitch;
  if (pixels <= FEW && plane_pitch == pixels) {  // the planes of a tile are contiguous
    const int count = MIN(TILE, channels - c0) * pixels;
    UNROLL
    for (int n = 0; n < FEW * TILE / THREADS; ++n) {
      const int i = n * THREADS + THREAD(0), c = i / pixels;
      if (i < count) tile[c * (TILE + 1) + i - c * pixels] = from[(i64)c0 * pixels + i];
    }
  } else {
    UNROLL
    for (int i = 0; i < TILE * TILE / THREADS; ++i) {
      const int c = i * (THREADS / TILE) + THREAD(0) / TILE;
      if (c0 + c < channels && p0 + lane < pixels)
        tile[c * (TILE + 1) + lane] = from[(c0 + c) * plane_pitch + p0 + lane];
    }
  }
  BARRIER();
  const int unit = THREAD(0) % (TILE / UNIT) * UNIT;
  if (c0 + unit >= channels) return;
  UNROLL
  for (int i = 0; i < TILE * TILE / UNIT / THREADS; ++i) {
    const int p = i * (THREADS / (TILE / UNIT)) + THREAD(0) / (TILE / UNIT);
    if (p0 + p >= pixels) continue;
    u32 v[UNIT];
    UNROLL
    for (int j = 0; j < UNIT; ++j) v[j] = tile[(unit + j) * (TILE + 1) + p];
    store_parts(to, ((i64)image * pixels + p0 + p) * channels + c0 + unit, size, v, outside);
  }
}
