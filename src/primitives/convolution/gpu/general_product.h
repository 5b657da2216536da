// The tiled product of implicit_gemm_general.cl: any convolution that the reference kernel computes. Slower per
// operation than Product, which it replaces where that does not apply; its narrow tiles suit few output channels.
// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "core/kernel_builder.h"
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution::gpu {

class GeneralProduct {
 public:
  /// Sizes of tiles, each of which may split k, with sums in the workspace, or not.
  static constexpr int kTiles = 4, kChoices = 2 * kTiles;

  /// Choice i < kTiles is tile i with splits, kTiles + i the same tile without workspace.
  GeneralProduct(const DeviceInfo&, const Problem&, int choice);
  /// The choice with the least predicted time.
  static int best_choice(const DeviceInfo&, const Problem&);

  std::size_t workspace() const;
  double predict(const DeviceInfo&) const;
  std::vector<KernelSpec> kernels(const DeviceInfo&, const Problem&) const;
  /// built are kernels().
  void run(Stream&, const Kernels& built, const Operands&, const Problem::Args&) const;

 private:
  struct Tile {
    int p, q, k, slices;
    std::int64_t threads() const { return std::int64_t{slices} * (p / 4) * (q / 4); }
  };
  static const Tile kTileTable[kTiles];

  void set_tiles();
  double mean_taps() const;
  double pixels_read() const;
  void split(const DeviceInfo&);
  double partial_bytes(std::int64_t splits) const;
  double time_of(const DeviceInfo&, std::int64_t splits) const;

  Tile tile_;
  Direction direction_;
  DataType arithmetic_;                      // kFloat, kDouble or kInt8
  bool double_scalars_, wide_sums_ = false;  // int8: sums of 64 bits
  bool wide_positions_ = false, neighbours_in_p_ = true;
  std::size_t sum_size_ = 4;
  double tensor_bytes_, depth_ = 0;  // mean depth of the sums
  kernels::ConvSizes sizes_;
  kernels::ConvSteps steps_;
  kernels::ConvStrides strides_;
  kernels::GeneralShape shape_{};
};

}  // namespace polymio::convolution::gpu
