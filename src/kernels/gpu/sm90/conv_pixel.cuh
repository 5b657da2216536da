// Output pixels of a phase of a convolution.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/gpu/sm90/conv_shape.h"
#include "kernels/gpu/sm90/tensor_map.cuh"

namespace sm90 {

/// The output pixel of a row of a phase; images beyond the last for rows beyond the last.
template <int kSpatial>
DEVICE Pixel<kSpatial> pixel_at(const ConvPhase& p, int row) {
  Pixel<kSpatial> pixel;
  UNROLL
  for (int i = 0; i < kSpatial; ++i) {
    pixel.at[i] = row % p.size[i];
    row /= p.size[i];
  }
  pixel.image = row;
  return pixel;
}

/// Where the output has the first channel of a pixel.
template <int kSpatial>
DEVICE i64 place_of(const ConvShape& s, const ConvPhase& p, const Pixel<kSpatial>& pixel) {
  i64 place = p.dst + pixel.image * s.dst_image;
  UNROLL
  for (int i = 0; i < kSpatial; ++i) place += pixel.at[i] * s.dst_step[i];
  return place;
}

}  // namespace sm90
