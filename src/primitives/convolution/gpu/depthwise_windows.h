// The kernels of ConvGpuDepthwise for filters of any size: windows of a row in registers for stride 1, with columns
// (depthwise_window_planes) or channels (depthwise_window_channels) innermost, and others for one row of a few taps
// (depthwise_few_taps_planes, depthwise_few_taps_lines, depthwise_few_taps_channels); tap by tap for all others
// (depthwise_taps): three spatial dimensions, several output channels per input channel, steps other than 1, planes of
// a few results. Any strides, bias and activation in the same pass.
// SPDX-License-Identifier: MIT
#pragma once
#include "core/kernel_builder.h"
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution::gpu {

class DepthwiseWindows {
 public:
  /// Refusals of a depthwise problem that check_planes accepts, epilogue included.
  static Verdict check(const DeviceInfo&, const Problem&);
  static int variants(const DeviceInfo&, const Problem&);
  static int best(const DeviceInfo&, const Problem&);  // of few taps, if there are; else with the least estimated time

  DepthwiseWindows(const DeviceInfo&, const Problem&, int variant);
  bool fits() const { return fits_; }
  double predict(const DeviceInfo&) const;  // microseconds
  std::size_t workspace() const;
  std::vector<KernelSpec> kernels() const;
  void run(Stream&, const Kernels&, const Problem::Args&) const;

 private:
  enum class Kind { kPlanes, kChannels, kTaps };

  bool weights() const { return direction_ == Direction::kBackwardWeights; }
  std::int64_t taps() const { return std::int64_t{filter_d_} * shape_.filter_h * filter_w_; }
  double results() const;
  void set_shape(const Problem&);
  bool has_tiny_planes() const;
  int few_taps_variants() const;
  int few_taps_planes_variants() const;
  int few_taps_vector() const;
  bool has_vectors_of(int elements) const;
  void set_lanes();
  void plan_planes(const DeviceInfo&, int variant);
  void plan_planes_data(const DeviceInfo&, int variant);
  void plan_planes_weights(int variant);
  void plan_channels(int variant);
  void plan_few_taps(const DeviceInfo&, int variant);
  void plan_few_taps_of_channels(const DeviceInfo&, int columns, int run);
  void plan_taps(int variant);
  bool slides() const;
  void set_parts(std::int64_t blocks, std::int64_t pieces);

  kernels::DepthwiseWindowShape shape_{};
  kernels::DepthwiseVolume volume_{};
  Kind kind_ = Kind::kTaps;
  Direction direction_;
  DataType type_;
  Epilogue epilogue_;
  bool last_ = false, fits_ = true, few_taps_ = false, lines_ = false;
  int filter_d_ = 1, filter_w_ = 1, threads_ = 256, chunk_ = 1, cols_ = 1, rows_ = 1, vec_ = 1, local_floats_ = 0,
      tap_floats_ = 0, parts_ = 1;
  std::int64_t blocks_ = 1, units_ = 0, weight_count_;  // units_: of a line, few taps
  double bytes_, accesses_ = 0, products_ = 0;  // loads of a thread from caches or local memory, multiply-adds; in all
};

}  // namespace polymio::convolution::gpu
