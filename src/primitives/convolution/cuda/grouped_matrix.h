// The kernels of ConvGpuGrouped on NVIDIA matrix units.
// SPDX-License-Identifier: MIT
#pragma once
#include "core/kernel_builder.h"
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution::cuda {

class GroupedMatrix {
 public:
  /// Whether the device has matrix units and the kernels support the problem, which ConvGpuGrouped accepts.
  static bool serve(const DeviceInfo&, const Problem&);

  GroupedMatrix(const DeviceInfo&, const Problem&);
  std::size_t workspace() const;
  std::vector<KernelSpec> kernels() const;
  void run(Stream&, const Kernels&, const Problem::Args&) const;

 private:
  kernels::GroupedShape shape_{};
  Direction direction_;
  DataType type_;
  bool planes_;                                           // NCHW
  int filter_, groups_, tile_w_, warps_, tiles_, parts_;  // groups_: per block
  std::int64_t weight_count_;
};

}  // namespace polymio::convolution::cuda
