// The stride-1 kernels of ConvGpuDepthwise with 16-byte accesses: NHWC in tiles or column tiles of pixels in local
// memory (depthwise_tiles, depthwise_rows), NCHW in runs of a row in registers (depthwise_lines).
// SPDX-License-Identifier: MIT
#pragma once
#include "core/kernel_builder.h"
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution::gpu {

class DepthwiseTiles {
 public:
  /// Channels and pixels per block; rows and columns per thread at a time; filter rows per thread (weights).
  struct Tile {
    int channels, tile_h, tile_w, rows, cols, tap_rows;
    int stages = 0;  // depthwise_rows: rows of the ring in local memory; column tiles have at most tile_h rows
    bool is_rows_kernel() const { return stages > 0; }
    bool is_lines_kernel() const { return channels == 0; }  // depthwise_lines (NCHW): tile_h and cols are per thread
  };

  /// Whether these kernels support the problem, which ConvGpuDepthwise accepts.
  static bool serve(const Problem&);
  static int variants(const Problem&);
  static bool fits(const Problem&, int variant);       // whether local memory suffices
  static int best(const DeviceInfo&, const Problem&);  // variant with the least estimated waste

  DepthwiseTiles(const DeviceInfo&, const Problem&, int variant);
  std::size_t workspace() const;
  std::vector<KernelSpec> kernels() const;
  void run(Stream&, const Kernels&, const Problem::Args&) const;

 private:
  bool weights() const { return direction_ == Direction::kBackwardWeights; }

  kernels::DepthwiseShape shape_;
  Tile tile_;
  Direction direction_;
  DataType type_;
  Epilogue epilogue_;
  int filter_, threads_, tiles_, parts_;
  std::int64_t chunks_, weight_count_;
};

}  // namespace polymio::convolution::gpu
