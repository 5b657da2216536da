// NCHW through NHWC copies of some channels, where vectors over channels are full: groups of several channels;
// depthwise layers of 16-bit types and int8, with many taps or narrow images; and backward weights with short rows,
// which then need no sums over lanes.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/depthwise_nchw.h"
#include "kernels/cpu/isa/dot_operands.h"
#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/partial_vectors.h"
#include "kernels/cpu/isa/transpose.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

template <>
const DepthwiseKernels& entry_points<DepthwiseKernels>();

inline constexpr i64 kTransposedBytes = 384 << 10;  // x and y in scratch, backward weights
inline constexpr i64 kMostUnits = 4;                // the most vectors of channels per copy, backward weights
inline constexpr i64 kFewPixels = 2;                // pixels up to this number are faster copied one by one

/// S: type of x and w; R: type of y.
template <class S, class R = S>
class NhwcCopy {
  using Lane = std::conditional_t<sizeof(S) == sizeof(double), double, float>;
  static constexpr bool kAllDirections = __is_same(S, R);  // int8 results of another type: forward only
  static constexpr int kN = kLanes<Lane>;
  static constexpr int kMostPixels = 2 * kN;  // per transpose

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
      images_ = job.transposed_images;
      block_channels_ = max_block_channels_ = Depthwise::kTransposedChannels;
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
    nhwc_job_.transposed = false;
    // The transpose stores past the last pixel; each copy starts at a cache line. The size holds for any number of
    // images: a caller's last job may have fewer.
    const auto room = [&](i64 plane) { return ceil_div(copies * plane + kMostPixels * max_block_channels_, 64) * 64; };
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
      if (forward) {
        each_image([&](i64 i) { gather(x_of(n + i, channel), s_.x_c, x_plane_, x_ + i * nhwc_job_.shape.x_n); });
      } else if constexpr (kAllDirections) {
        each_image([&](i64 i) { gather(y_of(n + i, channel), s_.y_k, y_plane_, y_ + i * nhwc_job_.shape.y_n); });
      }
      entry_points<DepthwiseKernels>().run(nhwc_job_, 0, nhwc_job_.pieces(), scratch_tail_);
      if (forward) {
        R* const to = static_cast<R*>(job_.result) + n * s_.y_n + channel * s_.y_k;
        each_image([&](i64 i) { scatter(y_ + i * nhwc_job_.shape.y_n, y_plane_, to + i * s_.y_n, s_.y_k); });
      } else if constexpr (kAllDirections) {
        S* const to = static_cast<S*>(job_.result) + n * s_.x_n + channel * s_.x_c;
        each_image([&](i64 i) { scatter(x_ + i * nhwc_job_.shape.x_n, x_plane_, to + i * s_.x_n, s_.x_c); });
      }
    }
  }

 private:
  const S* x_of(i64 n, i64 channel) const { return static_cast<const S*>(job_.x) + n * s_.x_n + channel * s_.x_c; }
  const R* y_of(i64 n, i64 channel) const { return static_cast<const R*>(job_.y) + n * s_.y_n + channel * s_.y_k; }

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
        gather(x_of(n + i, channel), s_.x_c, x_plane_, x_ + i * nhwc_job_.shape.x_n);
        gather(y_of(n + i, channel), s_.y_k, y_plane_, y_ + i * nhwc_job_.shape.y_n);
      });
      entry_points<DepthwiseKernels>().run(nhwc_job_, 0, nhwc_job_.pieces(), scratch_tail_);
      nhwc_job_.beta = 1;
    }
  }

  /// Calls square(whole, first pixel, pixels) for squares of up to `side` pixels and one(pixel) for remaining pixels.
  template <class Square, class One>
  static void each_square(i64 pixels, int side, const Square& square, const One& one) {
    i64 p = 0;
    for (; p + side <= pixels; p += side) square(std::true_type{}, p, side);
    if (p + kFewPixels < pixels) {
      square(std::false_type{}, p, static_cast<int>(pixels - p));
      p = pixels;
    }
    for (; p < pixels; ++p) one(p);
  }

  /// Transposes planes that are `plane` elements apart to pixels of block_channels_ channels.
  template <class T>
  void gather(const T* from, i64 plane, i64 pixels, T* to) const {
    // A lane is a dot operand of one, two or four channels. Squares of int8 quads have twice as many pixels, in two
    // sets of rows.
    constexpr int kPerLane = static_cast<int>(sizeof(Lane) / sizeof(T)), kSets = kPerLane == 4 ? 2 : 1,
                  kRows = kN / kSets;
    const i64 block = block_channels_, channels = channels_;
    for (i64 c = 0; c < channels; c += kRows * kPerLane) {
      const T* const planes = from + c * plane;
      const i64 plane_count = min_of<i64>(channels - c, kRows * kPerLane);
      const auto square = [&](auto whole, i64 p, int count) {
        Vec<DotOperand<T>> rows[kN];
#pragma GCC unroll 16
        for (int i = 0; i < kN; ++i) {
          const i64 first = i % kRows * kPerLane;
          const int n = whole ? kN : min_of(count - i / kRows * kN, kN);
          const bool is_inside = first < plane_count && n > 0;
          const T* const line = planes + first * plane + p + i / kRows * kN;
          rows[i] = is_inside ? load_dot_operands<T>(line, plane, min_of<i64>(plane_count - first, kPerLane), 1, n)
                              : Vec<DotOperand<T>>{};
        }
        transpose(rows);
        T* pixel = to + p * block + c;
#pragma GCC unroll 16
        for (int i = 0; i < kN; ++i, pixel += block) {
          if constexpr (kSets == 1) {
            store(reinterpret_cast<DotOperand<T>*>(pixel), rows[i]);
          } else {
            __builtin_memcpy(pixel, &rows[i], kVectorBytes / 2);
            const char* const upper = reinterpret_cast<const char*>(&rows[i]) + kVectorBytes / 2;
            __builtin_memcpy(pixel + kN * block, upper, kVectorBytes / 2);
          }
        }
      };
      each_square(pixels, kN * kSets, square, [&](i64 p) {
        for (i64 i = 0; i < plane_count; ++i) to[p * block + c + i] = planes[i * plane + p];
      });
    }
  }

  /// The inverse of gather.
  template <class T>
  void scatter(const T* from, i64 pixels, T* to, i64 plane) const {
    constexpr int kPerLane = static_cast<int>(sizeof(Lane) / sizeof(T)), kSets = kPerLane == 4 ? 2 : 1,
                  kRows = kN / kSets;
    using W = std::conditional_t<kPerLane == 1, Lane, std::uint32_t>;
    const i64 block = block_channels_, channels = channels_;
    for (i64 c = 0; c < channels; c += kRows * kPerLane) {
      T* const planes = to + c * plane;
      const i64 plane_count = min_of<i64>(channels - c, kRows * kPerLane);
      const auto square = [&](auto whole, i64 p, int count) {
        Vec<W> rows[kN];
        const T* pixel = from + p * block + c;
#pragma GCC unroll 16
        for (int i = 0; i < kN; ++i, pixel += block) {
          if constexpr (kSets == 1) {
            rows[i] = load(reinterpret_cast<const W*>(pixel));
          } else {
            __builtin_memcpy(&rows[i], pixel, kVectorBytes / 2);
            __builtin_memcpy(reinterpret_cast<char*>(&rows[i]) + kVectorBytes / 2, pixel + kN * block,
                             kVectorBytes / 2);
          }
        }
        transpose(rows);
        for (int i = 0; i < kN; ++i) {
          const int n = whole ? kN : min_of(count - i / kRows * kN, kN);
          T* const line = planes + i % kRows * kPerLane * plane + p + i / kRows * kN;
          const i64 operands = n > 0 ? min_of<i64>(plane_count - i % kRows * kPerLane, kPerLane) : 0;
          for (int e = 0; e < operands; ++e) store_element(line + e * plane, rows[i], e, n);
        }
      };
      each_square(pixels, kN * kSets, square, [&](i64 p) {
        for (i64 i = 0; i < plane_count; ++i) planes[i * plane + p] = from[p * block + c + i];
      });
    }
  }
  /// Stores element e of the first n dot operands.
  template <class T, class V>
  static void store_element(T* to, V operands, [[maybe_unused]] int e, int n) {
    if constexpr (sizeof(T) >= sizeof(float)) {
      Writer<Lane>(n).store(reinterpret_cast<Lane*>(to), operands);
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    } else if constexpr (sizeof(T) == 2) {
      const auto mask = static_cast<__mmask16>(0xffffu >> (kN - n));
      _mm512_mask_cvtepi32_storeu_epi16(to, mask, (__m512i)(operands >> 16 * e));
    } else {
      const auto mask = static_cast<__mmask16>(0xffffu >> (kN - n));
      _mm512_mask_cvtepi32_storeu_epi8(to, mask, (__m512i)(operands >> 8 * e));
#else
    } else {
      static_assert(sizeof(T) >= sizeof(float));
#endif
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
