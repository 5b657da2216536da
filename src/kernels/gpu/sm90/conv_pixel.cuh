// Pixels of the matrix products of convolutions.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/sm90/conv_shape.h"
#include "kernels/gpu/sm90/tensor_map.cuh"

namespace sm90 {

/// Pixel `index` of images of the size of a phase or of a gradient's dy; images beyond the last for indices beyond the
/// last.
template <int kSpatial, class Images>
DEVICE Pixel<kSpatial> pixel_at(const Images& images, int index) {
  Pixel<kSpatial> pixel;
  UNROLL
  for (int i = 0; i < kSpatial; ++i) {
    pixel.at[i] = index % images.size[i];
    index /= images.size[i];
  }
  pixel.image = index;
  return pixel;
}

/// Where the output has the first channel of a pixel.
template <int kSpatial>
DEVICE i64 place_of(const ConvProductShape& s, const ConvPhase& p, const Pixel<kSpatial>& pixel) {
  i64 place = p.dst + pixel.image * s.dst_image;
  UNROLL
  for (int i = 0; i < kSpatial; ++i) place += pixel.at[i] * s.dst_step[i];
  return place;
}

}  // namespace sm90
