// The parts of ConvGpuDepthwise that read 16 bytes at a time, with stride 1: with channels innermost tiles or strips of
// pixels in local memory; with rows innermost runs of a row in registers.
// SPDX-License-Identifier: MIT
#pragma once
#include "core/kernel_builder.h"
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution::gpu {

class DepthwiseTiles {
 public:
  /// Channels and pixels of a block, pixels of a thread at a time, rows of the filter that a thread owns.
  struct Tile {
    int channels, tile_h, tile_w, rows, cols, tap_rows;
    int stages = 0;  // rows on their way where blocks walk down strips, of tile_h rows at most
    bool walks() const { return stages > 0; }
    bool lines() const { return channels == 0; }  // rows innermost; tile_h and cols are a thread's
  };

  /// Whether the problem, one that ConvGpuDepthwise accepts, is one for tiles of some size.
  static bool serve(const Problem&);
  static int variants(const Problem&);
  static bool fits(const Problem&, int variant);       // local memory
  static int best(const DeviceInfo&, const Problem&);  // that wastes the least

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
  int filter_, threads_, tiles_, parts_;
  std::int64_t chunks_, weight_count_;
};

}  // namespace polymio::convolution::gpu
