// Tiling of filters and images for the FFT.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/fft.h"

namespace polymio::kernels {

void Fft::cut(int points) {
  tile = points;
  const std::int64_t half = tile / 2;
  for (int d = 0; d < 2; ++d) {
    // A filter that leaves less than a quarter of the tile to outputs is cut into parts of half a tile. Parts and tiles
    // have the same step, so that each transformed tile serves all parts.
    const std::int64_t outputs = tile - reach(d) + 1;
    parts[d] = outputs >= tile / 4 ? 1 : (reach(d) + half - 1) / half;
    step[d] = parts[d] == 1 ? outputs : half;
    tiles[d] = (shape.out[d + 1] + step[d] - 1) / step[d];
    grid[d] = tiles[d] + parts[d] - 1;
  }
}

std::int64_t Fft::pieces(FftStage stage) const {
  switch (stage) {
    case FftStage::kWeights: return parts[0] * parts[1] * y_vectors() * (depthwise ? 1 : shape.c);
    case FftStage::kInput: return places() * x_vectors();
    case FftStage::kMultiply: return frequencies();
    default: return images * rows * tiles[1] * y_vectors();
  }
}

std::size_t Fft::scratch() const {
  const std::int64_t planes = 2 * (tile / 2 + 1) * (batch() * tile + 1);
  return static_cast<std::size_t>((tile + planes) * lanes) * sizeof(float);
}

}  // namespace polymio::kernels
