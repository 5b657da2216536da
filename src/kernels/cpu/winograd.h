// Winograd convolution with stride 1, in the last two spatial dimensions; fp32 arithmetic, tensors of any 16- or
// 32-bit float type.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/conv_shape.h"

namespace polymio::kernels {

struct Epilogue;

/// Images are cut into tiles of tile x tile outputs, filters into parts of taps x taps (dimension 0: single planes).
/// Results are summed over parts and channels; each tile and part need points() products. With dilation d the pixels of
/// a tile are d apart, and d tiles that start at neighbouring columns cover one band of the image.
struct WinogradTiles {
  ConvShape shape;            // the innermost spatial strides or the channel strides of x and of y are 1
  std::int64_t w_group = 0;   // elements between groups of filters
  int tile = 4, taps = 3;     // (tile, taps): (2, 3); (4, 3), (3, 4), (2, 5); (6, 3), (5, 4), (4, 5)
  std::int64_t planes = 1;    // output planes per slab: tiles cover all of them
  std::int64_t tiles = 1;     // tiles per block: whole bands
  std::int64_t c_block = 1;   // channels per block of transforms
  std::int64_t k_block = 1;   // output channels per block
  float* memory = nullptr;    // aligned to kScratchAlignment
  float alpha = 1, beta = 0;  // beta == 0: the result is never read

  std::int64_t points() const { return (tile + taps - 1) * (tile + taps - 1); }
  std::int64_t parts(int d) const { return d == 0 ? shape.taps[0] : (shape.taps[d] + taps - 1) / taps; }
  /// Input pixels between the first taps of neighbouring parts.
  std::int64_t part_step(int d) const { return (d == 0 ? 1 : taps) * shape.dilation[d]; }
  /// Tiles per band, and along spatial dimension 1 or 2.
  std::int64_t band() const { return shape.dilation[2]; }
  std::int64_t across(int d) const {
    const std::int64_t pixels = shape.dilation[d] * tile;
    return (shape.out[d] + pixels - 1) / pixels * shape.dilation[d];
  }
  std::int64_t slabs() const { return (shape.out[0] + planes - 1) / planes; }
  std::int64_t all_tiles() const { return shape.n * slabs() * across(1) * across(2); }
  std::int64_t tile_blocks() const { return (all_tiles() + tiles - 1) / tiles; }
};

/// Forward or backward data. Backward data exchanges x and y and the channels of the filter, and reverses the taps by
/// negative strides. c_block and part_rows determine the order of summation.
struct Winograd : WinogradTiles {
  std::int64_t part_rows = 1;  // rows of parts per chunk of transforms, all or one
  std::int64_t k_piece = 1;    // output channels per piece: a multiple of k_block, or all
  bool stored = true;          // `memory` has the transformed filters; else each piece transforms them
  const void* x = nullptr;
  const void* w = nullptr;
  void* y = nullptr;
  const Epilogue* epilogue = nullptr;  // without its y and without a residual; requires beta == 0

  std::int64_t c_blocks() const { return (shape.c + c_block - 1) / c_block; }
  /// Chunks of transforms: c_block channels of part_rows rows of parts.
  std::int64_t chunks() const { return (parts(1) + part_rows - 1) / part_rows * c_blocks(); }
  /// Blocks of tiles times k_piece output channels, of each group.
  std::int64_t pieces() const { return shape.groups * ((shape.k + k_piece - 1) / k_piece) * tile_blocks(); }
};

/// Backward weights, with slabs of one plane: tiles of dy take the role of filters, and the sums over tiles give dw of
/// a part. Each slice of the tiles has its own sums in `memory`; the number of slices determines the order of
/// summation.
struct WinogradWeights : WinogradTiles {
  std::int64_t slices = 1;
  const void* x = nullptr;
  const void* dy = nullptr;
  void* dw = nullptr;

  std::int64_t c_blocks() const { return (shape.c + c_block - 1) / c_block; }
  std::int64_t k_blocks() const { return (shape.k + k_block - 1) / k_block; }
  std::int64_t all_parts() const { return parts(0) * parts(1) * parts(2); }
  std::int64_t pieces() const { return shape.groups * c_blocks() * k_blocks() * all_parts() * slices; }
};

struct WinogradKernels {
  static constexpr bool kHasDotProducts = false;
  /// Output channels per panel of filters.
  std::int64_t panel;
  /// Transforms the filters of panels [first, end), ordered by group, into job.memory (memory() bytes).
  void (*filters)(const Winograd& job, std::int64_t first, std::int64_t end, void* scratch);
  /// Pieces [first, end); with job.stored, job.memory has the transformed filters. Both need scratch() bytes.
  void (*run)(const Winograd& job, std::int64_t first, std::int64_t end, void* scratch);
  std::size_t (*scratch)(const Winograd& job);
  std::size_t (*memory)(const Winograd& job);
};

struct WinogradWeightsKernels {
  static constexpr bool kHasDotProducts = false;
  /// Output channels per panel of sums.
  std::int64_t panel;
  /// Pieces [first, end) into job.memory (memory() bytes); scratch holds scratch() bytes.
  void (*run)(const WinogradWeights& job, std::int64_t first, std::int64_t end, void* scratch);
  /// Vectors [first, end) of output channels, ordered by group: adds the slices and writes dw.
  void (*sum)(const WinogradWeights& job, std::int64_t first, std::int64_t end);
  std::size_t (*scratch)(const WinogradWeights& job);
  std::size_t (*memory)(const WinogradWeights& job);
};

}  // namespace polymio::kernels
