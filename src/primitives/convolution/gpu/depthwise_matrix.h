// The part of ConvGpuDepthwise that uses the matrix units of NVIDIA GPUs: channels innermost, stride 1.
// SPDX-License-Identifier: MIT
#pragma once
#include "core/kernel_builder.h"
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution::gpu {

class DepthwiseMatrix {
 public:
  /// Channels of a block, most columns of its strips (in sixteens) and those of a warp at a time, or images whose first
  /// sixteen columns these are, rows on their way, blocks of a multiprocessor.
  struct Tile {
    int channels, columns, of_warp, images, stages, resident;
  };

  /// Whether the problem, one that ConvGpuDepthwise accepts, is one for the matrix units, and the device has them.
  static bool serve(const DeviceInfo&, const Problem&);
  static int variants(const Problem&);
  static int best(const DeviceInfo&, const Problem&);  // that wastes the least

  DepthwiseMatrix(const DeviceInfo&, const Problem&, int variant);
  std::size_t workspace() const;
  std::vector<KernelSpec> kernels() const;
  void run(Stream&, const Kernels&, const Problem::Args&) const;

 private:
  void shorten_ring();

  kernels::DepthwiseShape shape_;
  Tile tile_;
  Direction direction_;
  DataType type_;
  int filter_, tile_w_, column_tiles_, chunks_, parts_;
  std::int64_t weight_count_;
};

}  // namespace polymio::convolution::gpu
