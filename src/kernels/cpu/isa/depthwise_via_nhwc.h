// NCHW through NHWC copies of some channels, where vectors over channels are full: groups of several channels;
// depthwise layers of 16-bit types and int8, with many taps or narrow images; and backward weights with short rows,
// which then need no sums over lanes.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/depthwise_paths.h"
#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/transpose_planes.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

inline constexpr i64 kTransposedBytes = 384 << 10;  // x and y in scratch, backward weights
inline constexpr i64 kMostUnits = 4;                // the most vectors of channels per copy, backward weights

/// S: type of x and w; R: type of y.
template <class S, class R = S>
class NhwcCopy {
  using Lane = std::conditional_t<sizeof(S) == sizeof(double), double, float>;
  static constexpr bool kAllDirections = __is_same(S, R);  // int8 results of another type: forward only
  static constexpr int kN = kLanes<Lane>;

 public:
  NhwcCopy(const Depthwise& job, void* scratch)
      : job_(job), s_(job.shape), nhwc_job_(job), backward_weights_(job.direction == ConvDirection::kBackwardWeights) {
    x_plane_ = s_.in[0] * s_.in[1] * s_.in[2];
    y_plane_ = s_.out[0] * s_.out[1] * s_.out[2];
    i64 copies = 0;  // the most channels times images per call
    if (backward_weights_) {
      const i64 fits = kTransposedBytes / ((x_plane_ + y_plane_) * static_cast<i64>(sizeof(Vec<Lane>)));
      images_ = max_of<i64>(min_of(fits, s_.n), 1);
      max_block_channels_ = kN * kMostUnits;
      block_channels_ = min_of(kN * max_of<i64>(fits / images_, 1), max_block_channels_);
      copies = kN * max_of<i64>(fits, 1);
    } else {
      images_ = job.copied_images;
      block_channels_ = max_block_channels_ = kDepthwiseCopiedChannels;
      copies = images_ * block_channels_;
    }
    ConvShape& s = nhwc_job_.shape;
    s.n = images_;
    s.groups = block_channels_ / s.c;
    i64 x = block_channels_, y = block_channels_;
    for (int d = kSpatial - 1; d >= 0; --d) {
      s.x_d[d] = x;
      s.y_d[d] = y;
      x *= s.in[d];
      y *= s.out[d];
    }
    s.x_c = s.y_k = 1;
    s.x_n = x;
    s.y_n = y;
    nhwc_job_.channels_last = true;
    nhwc_job_.path = job.copy_path;
    // The transpose stores past the last pixel; each copy starts at a cache line. The size holds for any number of
    // images: a caller's last job may have fewer.
    const auto room = [&](i64 plane) {
      return ceil_div(copies * plane + kMostSquarePixels<Lane> * max_block_channels_, 64) * 64;
    };
    x_ = static_cast<S*>(scratch);
    y_ = reinterpret_cast<R*>(x_ + room(x_plane_));
    scratch_tail_ = y_ + room(y_plane_);
    bytes_ =
        static_cast<std::size_t>(room(x_plane_)) * sizeof(S) + static_cast<std::size_t>(room(y_plane_)) * sizeof(R);
    nhwc_job_.x = x_;
    nhwc_job_.y = y_;
  }

  std::size_t bytes() const {
    Depthwise widest = nhwc_job_;
    widest.shape.groups = max_block_channels_ / s_.c;
    return bytes_ + entry_points<DepthwiseKernels>().scratch(widest);
  }

  /// Backward weights of groups [first, end).
  void weights(i64 first, i64 end) {
    for (i64 c = first * s_.c; c < end * s_.c; c += block_channels_)
      weights_of(c, min_of(block_channels_, end * s_.c - c));
  }

  /// Forward or backward data of pieces [first, end): a block of channels of some images.
  void data(i64 first, i64 end) {
    const i64 parts = ceil_div(s_.n, images_);
    const bool forward = job_.direction == ConvDirection::kForward;
    nhwc_job_.beta = 0;
    nhwc_job_.result = forward ? static_cast<void*>(y_) : x_;
    for (i64 piece = first; piece < end; ++piece) {
      const i64 channel = piece / parts * block_channels_, n = piece % parts * images_;
      select_block(min_of(block_channels_, s_.groups * s_.c - channel), n);
      nhwc_job_.w = static_cast<const S*>(job_.w) + channel * s_.w_k;
      nhwc_job_.epilogue_channel = job_.epilogue_channel + channel;
      if (forward) {
        each_image(
            [&](i64 i) { planes_to_pixels<Lane>(x_of(n + i, channel), x_block(), x_ + i * nhwc_job_.shape.x_n); });
      } else if constexpr (kAllDirections) {
        each_image(
            [&](i64 i) { planes_to_pixels<Lane>(y_of(n + i, channel), y_block(), y_ + i * nhwc_job_.shape.y_n); });
      }
      entry_points<DepthwiseKernels>().run(nhwc_job_, 0, nhwc_job_.pieces(), scratch_tail_);
      if (forward) {
        R* const to = static_cast<R*>(job_.result) + n * s_.y_n + channel * s_.y_k;
        each_image([&](i64 i) { pixels_to_planes<Lane>(y_ + i * nhwc_job_.shape.y_n, y_block(), to + i * s_.y_n); });
      } else if constexpr (kAllDirections) {
        S* const to = static_cast<S*>(job_.result) + n * s_.x_n + channel * s_.x_c;
        each_image([&](i64 i) { pixels_to_planes<Lane>(x_ + i * nhwc_job_.shape.x_n, x_block(), to + i * s_.x_n); });
      }
    }
  }

 private:
  const S* x_of(i64 n, i64 channel) const { return static_cast<const S*>(job_.x) + n * s_.x_n + channel * s_.x_c; }
  const R* y_of(i64 n, i64 channel) const { return static_cast<const R*>(job_.y) + n * s_.y_n + channel * s_.y_k; }

  PlaneBlock x_block() const { return {channels_, s_.x_c, x_plane_, block_channels_}; }
  PlaneBlock y_block() const { return {channels_, s_.y_k, y_plane_, block_channels_}; }

  /// Selects the next `channels` channels of the images from n on.
  void select_block(i64 channels, i64 n) {
    channels_ = channels;
    nhwc_job_.shape.groups = channels / s_.c;
    nhwc_job_.shape.n = min_of(images_, s_.n - n);
  }
  template <class Use>
  void each_image(const Use& use) const {
    for (i64 i = 0; i < nhwc_job_.shape.n; ++i) use(i);
  }

  void weights_of(i64 channel, i64 channels) {
    nhwc_job_.result = static_cast<S*>(job_.result) + channel * s_.w_k;
    nhwc_job_.beta = job_.beta;
    for (i64 n = 0; n < s_.n; n += images_) {
      select_block(channels, n);
      each_image([&](i64 i) {
        planes_to_pixels<Lane>(x_of(n + i, channel), x_block(), x_ + i * nhwc_job_.shape.x_n);
        planes_to_pixels<Lane>(y_of(n + i, channel), y_block(), y_ + i * nhwc_job_.shape.y_n);
      });
      entry_points<DepthwiseKernels>().run(nhwc_job_, 0, nhwc_job_.pieces(), scratch_tail_);
      nhwc_job_.beta = 1;
    }
  }

  const Depthwise& job_;
  const ConvShape& s_;
  Depthwise nhwc_job_;  // on the copies
  const bool backward_weights_;
  i64 x_plane_, y_plane_, images_;
  i64 block_channels_, max_block_channels_,
      channels_ = 0;  // channels per block, the most for any number of images, of the current one
  S* x_;              // the copies
  R* y_;
  void* scratch_tail_;
  std::size_t bytes_;
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
