// The NHWC stride-1 kernels of ConvGpuDepthwise on NVIDIA matrix units.
// SPDX-License-Identifier: MIT
#pragma once
#include "core/kernel_builder.h"
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution::cuda {

class DepthwiseMatrix {
 public:
  /// Channels per block; columns per block and per warp in groups of sixteen (images > 1: one group per image); images
  /// side by side; rows of the ring; blocks per multiprocessor.
  struct Tile {
    int channels, columns, per_warp, images, stages, resident;
  };

  /// Whether the device has matrix units and the kernels support the problem, which ConvGpuDepthwise accepts.
  static bool serve(const DeviceInfo&, const Problem&);
  static int variants(const Problem&);
  static int best(const DeviceInfo&, const Problem&);  // variant with the least estimated waste

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
  Epilogue epilogue_;
  int filter_, tile_w_, column_tiles_, chunks_, parts_;
  std::int64_t weight_count_;
};

}  // namespace polymio::convolution::cuda
