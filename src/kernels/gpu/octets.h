// Eight channels of two neighbours in a row, from tensors with rows innermost to local memory with channels innermost,
// and the way back of what matrix units leave in a warp. For floats of 16 bits and even widths.
// SPDX-License-Identifier: MIT
#pragma once

#ifdef UNALIGNED
#define LOAD_NEIGHBOURS(p) ((u32)(p)[0] | (u32)(p)[1] << 16)
#else
#define LOAD_NEIGHBOURS(p) (*(GLOBAL const u32*)(p))
#endif

INLINE void take_octet(GLOBAL const in_t* from, int plane, int inside, u32* v) {
  UNROLL
  for (int c = 0; c < 8; ++c) v[c] = inside ? LOAD_NEIGHBOURS(from + (i64)c * plane) : 0;
}

/// The left or the right one of the two.
INLINE void put_octet(LOCAL in_t* to, const u32* v, const int right) {
  u32 packed[4];
  UNROLL
  for (int i = 0; i < 4; ++i)
    packed[i] = right ? v[2 * i] >> 16 | (v[2 * i + 1] & 0xffff0000u) : (v[2 * i] & 0xffffu) | v[2 * i + 1] << 16;
  u32x4 all;
  all.x = packed[0], all.y = packed[1], all.z = packed[2], all.w = packed[3];
  *(LOCAL u32x4*)to = all;
}

#define PAIRS_OF(pixels) ((pixels) / 2 + 1)  // that a row meets, wherever it begins

/// A tile as copy_tile makes it.
INLINE void copy_planes(LOCAL in_t* tile, GLOBAL const in_t* planes, int h0, int w0, int rows, int cols, int width,
                        int pitch, int height, int breadth, int channels, int thread, int threads) {
  const int pairs = PAIRS_OF(cols), odd = w0 & 1;
  _Pragma("unroll 2") for (int i = thread; i < rows * pairs * (width / 8); i += threads) {
    const int line = i / pairs, left = (i - line * pairs) * 2 - odd, c = line / rows * 8, row = line % rows;
    const int h = h0 + row, w = w0 + left;
    u32 v[8];
    const int inside = (u32)h < (u32)height && (u32)w < (u32)breadth && c < channels;
    take_octet(planes + (inside ? ((i64)c * height + h) * breadth + w : 0), height * breadth, inside, v);
    LOCAL in_t* to = tile + (row * cols + left) * pitch + c;
    if (left >= 0 && left < cols) put_octet(to, v, 0);
    if (left + 1 < cols) put_octet(to + pitch, v, 1);
  }
}
