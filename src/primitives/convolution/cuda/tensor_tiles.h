// The tiled product of tensor_tiles.cl: any convolution as an implicit GEMM on NVIDIA's matrix units. Describes a
// problem to the kernel: which elements are contiguous in which order, tiles, splits of k.
// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "core/kernel_builder.h"
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution::cuda {

class TensorTiles {
 public:
  /// Whether the kernels support the problem; of the device only what portable kernels need.
  static Verdict check(const DeviceInfo&, const Problem&);
  static TuneSpace tune_space();
  static bool is_valid(const DeviceInfo&, const Problem&, const TunePoint&);
  /// The tile with the least predicted time.
  static TunePoint default_point(const DeviceInfo&, const Problem&);

  TensorTiles(const DeviceInfo&, const Problem&, const TunePoint&);
  std::size_t workspace() const;
  static ErrorClass error_class(const Problem&);
  double predict(const DeviceInfo&) const;  // microseconds
  std::vector<KernelSpec> kernels() const;
  /// built are kernels().
  void run(Stream&, const Kernels& built, const Problem&, const Problem::Args&) const;

 private:
  struct Tile {
    int p, q, warps_p, warps_q, resident;
    double efficiency;
    int threads() const { return 32 * warps_p * warps_q; }
  };
  static const Tile kTileTable[];

  /// Elements that are copied or stored together, along the rows (or columns) of a tile or along k.
  struct Unit {
    int elements;
    bool along;  // k; of results: q
  };

  bool weights() const { return direction_ == Direction::kBackwardWeights; }
  bool data() const { return direction_ == Direction::kBackwardData; }
  int vector() const;
  const kernels::i64* source() const { return data() ? strides_.y : strides_.x; }
  const kernels::i64* result() const;
  Unit gathered_unit() const;
  Unit plain_unit() const;
  Unit result_unit() const;
  int unaligned_units() const { return gathered_.elements * plain_.elements * stored_.elements; }
  void set_tiles();
  void split(const DeviceInfo&);
  double time_of(const DeviceInfo&, std::int64_t splits) const;

  /// `scalars` and, of stochastic rounding, the seed.
  template <class... Scalars>
  void launch_tiles(Stream&, const Kernels&, const Problem&, const Problem::Args&, const Scalars&...) const;

  Tile tile_;
  int stages_;
  Direction direction_;
  bool widens_, dithers_;          // 8-bit operands are multiplied in bf16; rounding of results is stochastic
  DataType first_, second_, out_;  // in memory
  DataType in_;                    // of the tiles
  Epilogue epilogue_;
  bool fp64_, static_shared_;        // the device's arithmetic; the kernel declares all its shared memory
  double tensor_bytes_, depth_ = 0;  // mean depth of the sums
  std::int64_t channels_, filters_, result_count_;  // per group; elements of the result
  kernels::ConvSizes sizes_;                        // with the channels of a group
  kernels::ConvSteps steps_;
  kernels::ConvStrides strides_;
  kernels::GeneralShape shape_{};
  bool channels_fast_;
  Unit gathered_, plain_, stored_;
};

}  // namespace polymio::convolution::cuda
