// Channels first by way of transposed copies of some channels, where vectors over channels are full: groups of several
// channels, depthwise layers of 16-bit types and int8, of many taps or narrow images, and gradients with short rows,
// which add no lanes in the end. SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/depthwise_nchw.h"
#include "kernels/cpu/isa/dot_operands.h"
#include "kernels/cpu/isa/entry_points.h"
#include "kernels/cpu/isa/partial_vectors.h"
#include "kernels/cpu/isa/transpose.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

inline constexpr i64 kTransposedBytes = 384 << 10;  // of x and y in scratch
inline constexpr i64 kMostUnits = 4;                // vectors of channels at a time
inline constexpr i64 kFewPixels = 2;                // that are faster moved one by one

/// S: the type of x and of backward data's or weights' other operand; R: that of y.
template <class S, class R = S>
class Transposed {
  using Lane = std::conditional_t<sizeof(S) == sizeof(double), double, float>;
  static constexpr bool kAll = __is_same(S, R);  // directions
  static constexpr int kN = kLanes<Lane>;
  static constexpr int kMostPixels = 2 * kN;  // that are transposed at once

 public:
  Transposed(const Depthwise& job, void* scratch)
      : job_(job), s_(job.shape), inner_(job), weights_(job.direction == ConvDirection::kBackwardWeights) {
    x_plane_ = s_.in[0] * s_.in[1] * s_.in[2];
    y_plane_ = s_.out[0] * s_.out[1] * s_.out[2];
    i64 copies = 0;  // channels of all images at once, at most
    if (weights_) {
      const i64 fits = kTransposedBytes / ((x_plane_ + y_plane_) * static_cast<i64>(sizeof(Vec<Lane>)));
      images_ = max_of<i64>(min_of(fits, s_.n), 1);
      widest_ = kN * kMostUnits;
      block_ = min_of(kN * max_of<i64>(fits / images_, 1), widest_);
      copies = kN * max_of<i64>(fits, 1);
    } else {
      images_ = job.transposed_images;
      block_ = widest_ = Depthwise::kTransposedChannels;
      copies = images_ * block_;
    }
    ConvShape& s = inner_.shape;
    s.n = images_;
    s.groups = block_ / s.c;
    i64 x = block_, y = block_;
    for (int d = kSpatial - 1; d >= 0; --d) {
      s.x_d[d] = x;
      s.y_d[d] = y;
      x *= s.in[d];
      y *= s.out[d];
    }
    s.x_c = s.y_k = 1;
    s.x_n = x;
    s.y_n = y;
    inner_.channels_last = true;
    inner_.transposed = false;
    // Behind the last pixel is written, too; each begins with a line of the cache. As many for any number of images:
    // callers copy fewer of them in the end.
    const auto room = [&](i64 plane) { return ceil_div(copies * plane + kMostPixels * widest_, 64) * 64; };
    x_ = static_cast<S*>(scratch);
    y_ = reinterpret_cast<R*>(x_ + room(x_plane_));
    behind_ = y_ + room(y_plane_);
    bytes_ =
        static_cast<std::size_t>(room(x_plane_)) * sizeof(S) + static_cast<std::size_t>(room(y_plane_)) * sizeof(R);
    inner_.x = x_;
    inner_.y = y_;
  }

  std::size_t bytes() const {
    Depthwise widest = inner_;
    widest.shape.groups = widest_ / s_.c;
    return bytes_ + depthwise_scratch(widest);
  }

  /// Groups [first, end) of gradients.
  void weights(i64 first, i64 end) {
    for (i64 c = first * s_.c; c < end * s_.c; c += block_) weights_of(c, min_of(block_, end * s_.c - c));
  }

  /// Pieces [first, end): some images of a block of channels each.
  void data(i64 first, i64 end) {
    const i64 parts = ceil_div(s_.n, images_);
    const bool forward = job_.direction == ConvDirection::kForward;
    inner_.beta = 0;
    inner_.result = forward ? static_cast<void*>(y_) : x_;
    for (i64 piece = first; piece < end; ++piece) {
      const i64 channel = piece / parts * block_, n = piece % parts * images_;
      take(min_of(block_, s_.groups * s_.c - channel), n);
      inner_.w = static_cast<const S*>(job_.w) + channel * s_.w_k;
      if (forward) {
        each_image([&](i64 i) { gather(x_of(n + i, channel), s_.x_c, x_plane_, x_ + i * inner_.shape.x_n); });
      } else if constexpr (kAll) {
        each_image([&](i64 i) { gather(y_of(n + i, channel), s_.y_k, y_plane_, y_ + i * inner_.shape.y_n); });
      }
      depthwise(inner_, 0, inner_.pieces(), behind_);
      if (forward) {
        R* const to = static_cast<R*>(job_.result) + n * s_.y_n + channel * s_.y_k;
        each_image([&](i64 i) { scatter(y_ + i * inner_.shape.y_n, y_plane_, to + i * s_.y_n, s_.y_k); });
      } else if constexpr (kAll) {
        S* const to = static_cast<S*>(job_.result) + n * s_.x_n + channel * s_.x_c;
        each_image([&](i64 i) { scatter(x_ + i * inner_.shape.x_n, x_plane_, to + i * s_.x_n, s_.x_c); });
      }
    }
  }

 private:
  const S* x_of(i64 n, i64 channel) const { return static_cast<const S*>(job_.x) + n * s_.x_n + channel * s_.x_c; }
  const R* y_of(i64 n, i64 channel) const { return static_cast<const R*>(job_.y) + n * s_.y_n + channel * s_.y_k; }

  /// Makes some channels of some images from n on the current ones.
  void take(i64 some, i64 n) {
    channels_ = some;
    inner_.shape.groups = some / s_.c;
    inner_.shape.n = min_of(images_, s_.n - n);
  }
  template <class Use>
  void each_image(const Use& use) const {
    for (i64 i = 0; i < inner_.shape.n; ++i) use(i);
  }

  void weights_of(i64 channel, i64 some) {
    inner_.result = static_cast<S*>(job_.result) + channel * s_.w_k;
    inner_.beta = job_.beta;
    for (i64 n = 0; n < s_.n; n += images_) {
      take(some, n);
      each_image([&](i64 i) {
        gather(x_of(n + i, channel), s_.x_c, x_plane_, x_ + i * inner_.shape.x_n);
        gather(y_of(n + i, channel), s_.y_k, y_plane_, y_ + i * inner_.shape.y_n);
      });
      depthwise(inner_, 0, inner_.pieces(), behind_);
      inner_.beta = 1;
    }
  }

  /// Calls square(whole, first pixel, pixels) for squares, and one(pixel) for pixels that are left.
  template <class Square, class One>
  static void each_square(i64 pixels, int side, const Square& square, const One& one) {
    i64 p = 0;
    for (; p + side <= pixels; p += side) square(std::true_type{}, p, side);
    if (p + kFewPixels < pixels) square(std::false_type{}, p, static_cast<int>(pixels - p)), p = pixels;
    for (; p < pixels; ++p) one(p);
  }

  /// Planes that are `plane` elements apart become vectors of block_ channels, one a pixel.
  template <class T>
  void gather(const T* from, i64 plane, i64 pixels, T* to) const {
    // Lanes are words of one, two or four channels. Squares of the last are of twice as many pixels: half the rows
    // each.
    constexpr int kPerLane = static_cast<int>(sizeof(Lane) / sizeof(T)), kSets = kPerLane == 4 ? 2 : 1,
                  kRows = kN / kSets;
    const i64 block = block_, channels = channels_;
    for (i64 c = 0; c < channels; c += kRows * kPerLane) {
      const T* const planes = from + c * plane;
      const i64 some = min_of<i64>(channels - c, kRows * kPerLane);
      const auto square = [&](auto whole, i64 p, int count) {
        Vec<DotOperand<T>> rows[kN];
#pragma GCC unroll 16
        for (int i = 0; i < kN; ++i) {
          const i64 first = i % kRows * kPerLane;
          const int n = whole ? kN : min_of(count - i / kRows * kN, kN);
          const bool any = first < some && n > 0;
          const T* const line = planes + first * plane + p + i / kRows * kN;
          rows[i] =
              any ? load_dot_operands<T>(line, plane, min_of<i64>(some - first, kPerLane), 1, n) : Vec<DotOperand<T>>{};
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
        for (i64 i = 0; i < some; ++i) to[p * block + c + i] = planes[i * plane + p];
      });
    }
  }

  /// The inverse.
  template <class T>
  void scatter(const T* from, i64 pixels, T* to, i64 plane) const {
    constexpr int kPerLane = static_cast<int>(sizeof(Lane) / sizeof(T)), kSets = kPerLane == 4 ? 2 : 1,
                  kRows = kN / kSets;
    using W = std::conditional_t<kPerLane == 1, Lane, std::uint32_t>;
    const i64 block = block_, channels = channels_;
    for (i64 c = 0; c < channels; c += kRows * kPerLane) {
      T* const planes = to + c * plane;
      const i64 some = min_of<i64>(channels - c, kRows * kPerLane);
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
          const i64 operands = n > 0 ? min_of<i64>(some - i % kRows * kPerLane, kPerLane) : 0;
          for (int e = 0; e < operands; ++e) put(line + e * plane, rows[i], e, n);
        }
      };
      each_square(pixels, kN * kSets, square, [&](i64 p) {
        for (i64 i = 0; i < some; ++i) planes[i * plane + p] = from[p * block + c + i];
      });
    }
  }
  /// The first n of the e-th elements of words.
  template <class T, class V>
  static void put(T* to, V operands, [[maybe_unused]] int e, int n) {
    if constexpr (sizeof(T) >= sizeof(float)) {
      Writer<Lane>(n).store(reinterpret_cast<Lane*>(to), operands);
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    } else if constexpr (sizeof(T) == 2) {
      const auto kept = static_cast<__mmask16>(0xffffu >> (kN - n));
      _mm512_mask_cvtepi32_storeu_epi16(to, kept, (__m512i)(operands >> 16 * e));
    } else {
      const auto kept = static_cast<__mmask16>(0xffffu >> (kN - n));
      _mm512_mask_cvtepi32_storeu_epi8(to, kept, (__m512i)(operands >> 8 * e));
#else
    } else {
      static_assert(sizeof(T) >= sizeof(float));
#endif
    }
  }

  const Depthwise& job_;
  const ConvShape& s_;
  Depthwise inner_;  // of the transposed channels
  const bool weights_;
  i64 x_plane_, y_plane_, images_, block_, widest_, channels_ = 0;  // channels of a block, at most, and of this one
  S* x_;
  R* y_;
  void* behind_;
  std::size_t bytes_;
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
