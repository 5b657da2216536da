// The part of ConvGpuDepthwise with channels innermost and stride 1: tiles of pixels in local memory.
// SPDX-License-Identifier: MIT
#pragma once
#include "core/kernel_builder.h"
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution::gpu {

class DepthwiseTiles {
 public:
  /// Whether the problem, one that ConvGpuDepthwise accepts, is one for tiles of some size.
  static bool serve(const Problem&);
  static int variants(const Problem&);
  static bool fits(const Problem&, int variant);  // local memory
  static int best(const Problem&);                // that wastes the least

  DepthwiseTiles(const DeviceInfo&, const Problem&, int variant);
  std::size_t workspace() const;
  std::vector<KernelSpec> kernels() const;
  void run(Stream&, const Kernels&, const Problem::Args&) const;

 private:
  kernels::DepthwiseShape shape_{};
  Direction direction_;
  DataType type_;
  int filter_, variant_, tiles_, parts_;
  std::int64_t weight_count_;
};

}  // namespace polymio::convolution::gpu
