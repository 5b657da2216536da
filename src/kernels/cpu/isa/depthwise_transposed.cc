// Backward weights with channels first by way of a transposed copy of some channels, where vectors over channels are
// full and no lanes are added in the end: groups of several channels, and depthwise where rows are short.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/depthwise_rows.h"
#include "kernels/cpu/isa/entries.h"
#include "kernels/cpu/isa/lanes.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

constexpr i64 kBlockBytes = 40 << 10;  // of x and y in scratch
constexpr i64 kMostUnits = 4;          // vectors of channels at a time
constexpr i64 kMostImages = 4;         // with more of them, adding lanes once is cheap
constexpr i64 kGroupBytes = 1 << 20;   // of x and y in scratch, in groups
constexpr i64 kFewPixels = 2;          // that are faster moved one by one

i64 volume(const i64 (&size)[kSpatial]) { return size[0] * size[1] * size[2]; }

bool packed(const i64 (&size)[kSpatial], const i64 (&strides)[kSpatial]) {
  return strides[2] == 1 && (size[1] == 1 || strides[1] == size[2]) &&
         (size[0] == 1 || strides[0] == size[1] * size[2]);
}

template <class T>
class Transposed {
  static constexpr int kN = kLanes<T>;

 public:
  Transposed(const Depthwise& job, void* scratch) : job_(job), s_(job.shape), inner_(job) {
    x_plane_ = volume(s_.in);
    y_plane_ = volume(s_.out);
    const i64 fits = kBlockBytes / ((x_plane_ + y_plane_) * static_cast<i64>(sizeof(Vec<T>)));
    images_ = max_of<i64>(min_of(fits, s_.n), 1);
    block_ = kN * max_of<i64>(min_of(fits / images_, kMostUnits), 1);
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
    x_ = static_cast<T*>(scratch);
    y_ = x_ + images_ * x + kN * block_;  // what is transposed behind the last pixel is written, too
    behind_ = y_ + images_ * y + kN * block_;
    bytes_ = static_cast<std::size_t>(images_ * (x + y) + 2 * kN * block_) * sizeof(T);
    inner_.x = x_;
    inner_.y = y_;
  }

  std::size_t bytes() const { return bytes_ + depthwise_scratch(inner_); }

  /// Groups [first, end).
  void run(i64 first, i64 end) {
    for (i64 c = first * s_.c; c < end * s_.c; c += block_) weights(c, min_of(block_, end * s_.c - c));
  }

 private:
  void weights(i64 channel, i64 some) {
    inner_.shape.groups = some / s_.c;
    inner_.result = static_cast<T*>(job_.result) + channel * s_.w_k;
    inner_.beta = job_.beta;
    for (i64 n = 0; n < s_.n; n += images_) {
      inner_.shape.n = min_of(images_, s_.n - n);
      for (i64 i = 0; i < inner_.shape.n; ++i) {
        gather(static_cast<const T*>(job_.x) + (n + i) * s_.x_n + channel * s_.x_c, s_.x_c, x_plane_, some,
               x_ + i * inner_.shape.x_n);
        gather(static_cast<const T*>(job_.y) + (n + i) * s_.y_n + channel * s_.y_k, s_.y_k, y_plane_, some,
               y_ + i * inner_.shape.y_n);
      }
      depthwise(inner_, 0, inner_.pieces(), behind_);
      inner_.beta = 1;
    }
  }

  /// Planes that are `plane` elements apart become vectors of block_ channels, one a pixel.
  void gather(const T* from, i64 plane, i64 pixels, i64 channels, T* to) const {
    for (i64 c = 0; c < channels; c += kN, from += kN * plane) {
      const int some = static_cast<int>(min_of<i64>(channels - c, kN));
      i64 p = 0;
      for (; p + kFewPixels < pixels; p += kN) {
        gather_square(from + p, plane, some, static_cast<int>(min_of<i64>(pixels - p, kN)), to + p * block_ + c);
      }
      for (; p < pixels; ++p) {
        for (int i = 0; i < some; ++i) to[p * block_ + c + i] = from[i * plane + p];
      }
    }
  }
  void gather_square(const T* from, i64 plane, int channels, int pixels, T* to) const {
    const Writer<T> lanes(pixels);
    Vec<T> rows[kN];
#pragma GCC unroll 16
    for (int i = 0; i < kN; ++i) rows[i] = i < channels ? lanes.load(from + i * plane) : Vec<T>{};
    transpose(rows);
#pragma GCC unroll 16
    for (int i = 0; i < kN; ++i) store(to + i * block_, rows[i]);
  }

  const Depthwise& job_;
  const ConvShape& s_;
  Depthwise inner_;  // of the transposed channels
  i64 x_plane_, y_plane_, images_, block_;
  T *x_, *y_;
  void* behind_;
  std::size_t bytes_;
};

}  // namespace

bool transposes(const Depthwise& job) {
  const ConvShape& s = job.shape;
  const i64 lanes = s.dtype == DataType::kDouble ? kLanes<double> : kLanes<float>;
  const i64 bytes = (volume(s.in) + volume(s.out)) * kVectorBytes;
  if (job.direction != ConvDirection::kBackwardWeights || !job.aligned() || s.groups * s.c < lanes ||
      !packed(s.in, s.x_d) || !packed(s.out, s.y_d)) {
    return false;
  }
  if (s.c > 1) return s.c <= lanes && bytes <= kGroupBytes;
  return s.n <= kMostImages && 2 * s.out[2] <= lanes && bytes <= kBlockBytes;
}

void depthwise_transposed(const Depthwise& job, i64 first, i64 end, void* scratch) {
  if (job.shape.dtype == DataType::kDouble) return Transposed<double>(job, scratch).run(first, end);
  Transposed<float>(job, scratch).run(first, end);
}

std::size_t depthwise_transposed_scratch(const Depthwise& job) {
  return job.shape.dtype == DataType::kDouble ? Transposed<double>(job, nullptr).bytes()
                                              : Transposed<float>(job, nullptr).bytes();
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
