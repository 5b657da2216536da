// Products of TF32 whose operands are contiguous along rows and columns (transposed): gradients of fp32 weights. wgmma
// has none, so that each warp multiplies fragments (mma.sync) that it reads from shared memory.
// An operand is boxes of 32 channels, a pixel's are a row of 128 bytes. Which channels and pixels are a fragment's
// rows, columns and depth is free: lane i of four has pixels 2 i and 2 i + 1 of 8, and two channels in a row are the
// rows that a lane has of a fragment, so that their registers are loaded at once and all banks are read at a time.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/sm90/warp.cuh"

namespace sm90 {

/// Where a lane reads two of 8 pixels of a box, of which each fragment has kChannels. A box begins at a multiple of
/// 1024 bytes, the pixels at its row `first`.
template <int kChannels>
struct LanePixels {
  u32 at[2];

  LanePixels() = default;
  DEVICE LanePixels(u32 box, int first) {
    const int lane = threadIdx.x % 32;
    UNROLL
    for (int i = 0; i < 2; ++i) {
      const int row = first + lane % 4 * 2 + i;
      at[i] = box + row * kRowBytes + (lane / 4 * (kChannels / 2) ^ row % 8 * 16);
    }
  }
  DEVICE void advance(u32 bytes) {
    UNROLL
    for (int i = 0; i < 2; ++i) at[i] += bytes;
  }
  DEVICE u32 of_fragment(int f, int i) const { return at[i] ^ f * kChannels * 4; }
};

/// A product of kRowBoxes x kColumnBoxes boxes by a warpgroup.
template <int kRowBoxes, int kColumnBoxes>
class WarpTile {
  static constexpr int kAcross = kColumnBoxes == 4 * kRowBoxes ? 4 : 2;  // warps side by side

 public:
  static constexpr int kRows = kRowBoxes * kAcross / 4, kColumns = kColumnBoxes / kAcross;  // boxes of a warp

  /// Of this warp.
  static DEVICE int first_row_box() { return threadIdx.x % 128 / 32 / kAcross * kRows; }
  static DEVICE int first_column_box() { return threadIdx.x / 32 % kAcross * kColumns; }

  /// Of 8 pixels: fragments of 16 rows, of 8 columns.
  struct Rows {
    using Lane = LanePixels<16>;
    u32 of[kRows * 2][4];

    DEVICE void load(int box, const Lane& from, u32 offset) {
      UNROLL
      for (int f = 0; f < 2; ++f) {
        UNROLL
        for (int i = 0; i < 2; ++i) {
          const uint2 v = load_shared<uint2>(from.of_fragment(f, i) + offset);
          of[2 * box + f][2 * i] = v.x;
          of[2 * box + f][2 * i + 1] = v.y;
        }
      }
    }
  };
  struct Columns {
    using Lane = LanePixels<8>;
    u32 of[kColumns * 4][2];

    DEVICE void load(int box, const Lane& from, u32 offset) {
      UNROLL
      for (int f = 0; f < 4; ++f) {
        UNROLL
        for (int i = 0; i < 2; ++i) of[4 * box + f][i] = load_shared<u32>(from.of_fragment(f, i) + offset);
      }
    }
  };

  /// Adds the products of 8 pixels and the columns of a box.
  template <class Sums>
  static DEVICE void multiply(Sums& d, const Rows& rows, const Columns& columns, int box) {
    UNROLL
    for (int c = 4 * box; c < 4 * box + 4; ++c) {
      UNROLL
      for (int r = 0; r < kRows * 2; ++r)
        multiply_by_warp<Tf32>(reinterpret_cast<float(&)[4]>(*sums_of(d, r, c)), rows.of[r], columns.of[c]);
    }
  }

  /// A lane's sums of a fragment: of rows 2 * (lane / 4) and 1 more, of columns 2 * (lane % 4) and 1 more of each.
  template <class Sums>
  static DEVICE auto* sums_of(Sums& d, int row, int column) {
    constexpr int kOfBlock = sizeof d[0] / sizeof(float);
    const int at = (row * 4 * kColumns + column) * 4;
    return &d[at / kOfBlock][at % kOfBlock];
  }
};

}  // namespace sm90
