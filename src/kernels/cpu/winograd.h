// Winograd convolution with 3x3 filters, stride 1, two spatial dimensions; fp32 arithmetic, tensors of any
// 16- or 32-bit float type.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "kernels/cpu/conv_gemm.h"

namespace polymio::kernels {

/// A convolution cut into tiles of tile x tile outputs. Forward and backward data are one job: the latter has
/// x and y exchanged, the ends of the filter too, and its taps are reversed by negative strides.
struct Winograd {
  ConvShape shape;           // the innermost spatial strides or the channel strides of x and of y are 1
  std::int64_t w_group = 0;  // elements between the filters of groups
  int tile = 4;              // 2, 4 or 6
  std::int64_t tiles = 1;    // tiles of a block
  std::int64_t c_block = 1;  // channels that are summed at once: decides the order of summation
  std::int64_t k_block = 1;  // output channels whose sums are kept at once
  std::int64_t k_piece = 1;  // output channels of a piece: a multiple of k_block unless it is all
  bool stored = true;        // transformed filters lie in `memory`; otherwise each piece makes what it needs
  const void* x = nullptr;
  const void* w = nullptr;
  void* y = nullptr;
  float* memory = nullptr;    // aligned to kScratchAlignment
  float alpha = 1, beta = 0;  // beta == 0: y is never read

  std::int64_t points() const { return (tile + 2) * (tile + 2); }
  /// Tiles along spatial dimension 1 or 2.
  std::int64_t across(int d) const { return (shape.out[d] + tile - 1) / tile; }
  std::int64_t all_tiles() const { return shape.n * across(1) * across(2); }
  std::int64_t tile_blocks() const { return (all_tiles() + tiles - 1) / tiles; }
  /// Blocks of tiles times blocks of output channels of every group.
  std::int64_t pieces() const { return shape.groups * ((shape.k + k_piece - 1) / k_piece) * tile_blocks(); }
};

}  // namespace polymio::kernels
