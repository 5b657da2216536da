// Convolution of stride 1 by FFT (overlap-save): the image is cut into overlapping tiles, each tile and the filter are
// transformed, multiplied frequency by frequency and transformed back.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/conv_gemm.h"

namespace polymio::kernels {

/// Vectors of y per panel of transformed weights.
inline constexpr std::int64_t kFftPanel = 2;
/// The most parts of a filter in one dimension.
inline constexpr std::int64_t kFftParts = 6;
/// The most pieces per batch of transforms.
inline constexpr std::int64_t kFftBatch = 16;

/// The four stages, each a loop over independent pieces.
enum class FftStage { kWeights, kInput, kMultiply, kOutput };

/// One group, or a depthwise convolution of all groups. The shape is in forward form, 2-D, with stride 1: backward data
/// exchanges x and y and reverses the taps by negative strides. x is contiguous along the width or the channels, y too.
struct Fft {
  ConvShape shape;
  int tile = 16;           // 16 or 32: points of a transform
  int lanes = 16;          // of an fp32 vector
  bool depthwise = false;  // shape.c == shape.k: channel i of y depends on channel i of x only
  // The current block of output tiles: rows of tiles [row, row + rows) of images [image, image + images).
  std::int64_t image = 0, images = 1, row = 0, rows = 1;

  const void* x = nullptr;
  const void* w = nullptr;
  void* y = nullptr;
  float alpha = 1, beta = 0;                                               // beta == 0: y is never read
  float *w_spectra = nullptr, *x_spectra = nullptr, *y_spectra = nullptr;  // aligned to vectors

  // Per dimension, 0 (height) and 1 (width), set by cut(): parts of the filter, outputs per tile (positions per part if
  // there are several), output tiles, input tiles.
  std::int64_t parts[2] = {1, 1}, step[2] = {1, 1}, tiles[2] = {1, 1}, grid[2] = {1, 1};
  /// Cuts into tiles of points x points.
  void cut(int points);
  /// Positions that the dilated filter covers.
  std::int64_t reach(int d) const { return (shape.taps[d + 1] - 1) * shape.dilation[d + 1] + 1; }

  /// Frequencies of a real tile without the conjugates of others.
  std::int64_t frequencies() const { return tile * tile / 2 + 2; }
  /// Input tiles of the block, each of which has a place in the spectra.
  std::int64_t places() const { return images * (rows + parts[0] - 1) * grid[1]; }
  std::int64_t x_vectors() const { return (shape.c + lanes - 1) / lanes; }
  std::int64_t y_vectors() const { return (shape.k + lanes - 1) / lanes; }

  // Vectors per place and per frequency of the spectra [frequency][place][plane][channel]. Odd numbers distribute them
  // over the cache sets.
  std::int64_t x_place() const { return ((depthwise ? 2 : 3) * x_vectors()) | 1; }
  std::int64_t y_place() const { return (2 * y_vectors()) | 1; }
  std::int64_t x_frequency() const { return (places() * x_place()) | 1; }
  std::int64_t y_frequency() const { return (places() * y_place()) | 1; }
  /// Vectors per part of the filter: [frequency][part][panel of y's vectors][channel of x][plane][vector].
  std::int64_t w_part() const { return 2 * y_vectors() * (depthwise ? 1 : shape.c); }
  std::int64_t w_frequency() const { return (parts[0] * parts[1] * w_part()) | 1; }
  std::int64_t floats(std::int64_t vectors_per_frequency) const {
    return frequencies() * vectors_per_frequency * lanes;
  }

  std::int64_t pieces(FftStage) const;
  /// Pieces per batch of transforms.
  std::int64_t batch() const { return tile == 16 ? kFftBatch : kFftBatch / 2; }
  /// Bytes of scratch for any stage.
  std::size_t scratch() const;
};

}  // namespace polymio::kernels
