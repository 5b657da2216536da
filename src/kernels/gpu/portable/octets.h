// Copies NCHW tensors to local memory as NHWC, two horizontally adjacent pixels by eight channels (an octet) at a time,
// through registers. For 16-bit floats and even widths.
// SPDX-License-Identifier: MIT
#pragma once

#ifdef UNALIGNED
#define LOAD_PAIR(p) ((u32)(p)[0] | (u32)(p)[1] << 16)
#else
#define LOAD_PAIR(p) (*(GLOBAL const u32*)(p))
#endif

INLINE void load_octet(GLOBAL const in_t* src, int plane_size, int inside, u32* v) {
  UNROLL
  for (int c = 0; c < 8; ++c) v[c] = inside ? LOAD_PAIR(src + (i64)c * plane_size) : 0;
}

/// Stores the eight channels of the left or the right pixel.
INLINE void store_octet(LOCAL in_t* dst, const u32* v, const int right) {
  u32 packed[4];
  UNROLL
  for (int i = 0; i < 4; ++i)
    packed[i] = right ? v[2 * i] >> 16 | (v[2 * i + 1] & 0xffff0000u) : (v[2 * i] & 0xffffu) | v[2 * i + 1] << 16;
  u32x4 quad;
  quad.x = packed[0];
  quad.y = packed[1];
  quad.z = packed[2];
  quad.w = packed[3];
  *(LOCAL u32x4*)dst = quad;
}

#define PAIRS_OF(pixels) ((pixels) / 2 + 1)  // aligned pairs that cover `pixels` pixels, at any parity

/// As copy_tile, from NCHW planes; `planes` is at pixel (0, 0) of the first channel.
INLINE void copy_planes(LOCAL in_t* tile, GLOBAL const in_t* planes, int h0, int w0, int rows, int cols, int width,
                        int pitch, int plane_h, int plane_w, int channels, int thread, int threads) {
  const int pairs = PAIRS_OF(cols), odd = w0 & 1;
  _Pragma("unroll 2") for (int i = thread; i < rows * pairs * (width / 8); i += threads) {
    const int octet_row = i / pairs, left = (i - octet_row * pairs) * 2 - odd;
    const int c = octet_row / rows * 8, row = octet_row % rows;
    const int h = h0 + row, w = w0 + left;
    u32 v[8];
    const int inside = (u32)h < (u32)plane_h && (u32)w < (u32)plane_w && c < channels;
    load_octet(planes + (inside ? ((i64)c * plane_h + h) * plane_w + w : 0), plane_h * plane_w, inside, v);
    LOCAL in_t* dst = tile + (row * cols + left) * pitch + c;
    if (left >= 0 && left < cols) store_octet(dst, v, 0);
    if (left + 1 < cols) store_octet(dst + pitch, v, 1);
  }
}
