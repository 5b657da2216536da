// Lines of dx under windows of 3 with stride 2, in vectors of contiguous channels: each window is loaded once for its
// three elements of a line, where pooling_channel_gather.h loads it for each of them.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/pooling_channel_gather.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

template <class S, class T>
class ChannelSweep {
 public:
  using Sources = ChannelSources<S, T, true>;

  /// For elements that are `pixel` apart.
  static bool is_applicable(const WindowDim& width, i64 channels, i64 pixel) {
    constexpr i64 kLeastPixels = 16;  // at once: the window before the first is loaded again
    return width.length == 3 && width.stride == kStride && pixel == channels && channels >= kStep &&
           channels * kLeastPixels <= kWriterElements;
  }

  ChannelSweep(const WindowDim& width, i64 channels, const Sources& sources)
      : width_(width), channels_(channels), sources_(sources) {}

  /// All elements of a line; reserve(first, n): where the channels of elements [first, first + n) belong.
  template <class U, class Reserve>
  void line(const Reserve& reserve) const {
    const i64 most = kWriterElements / channels_;
    for (i64 first = 0; first < width_.size; first += most) {
      const Range which{first, min_of(first + most, width_.size)};
      T* const to = reserve(first, which.count());
      i64 c = 0;
      for (; c + 4 * kStep <= channels_; c += 4 * kStep) elements<U, 4>(which, c, 4 * kStep, to);
      if (c == channels_) continue;
      const i64 rest = channels_ - c;
      switch ((rest - 1) / kStep) {
        case 0: elements<U, 1>(which, channels_ - kStep, kStep, to); break;  // overlaps the vector before
        case 1: elements<U, 2>(which, c, rest, to); break;
        case 2: elements<U, 3>(which, c, rest, to); break;
        default: elements<U, 4>(which, c, rest, to);
      }
    }
  }

 private:
  static constexpr i64 kStep = kLanes<T>, kStride = 2;

  /// n channels from c on in kVectors vectors; the last overlaps the one before. Element `which.first` is at `to`.
  template <class U, int kVectors>
  [[gnu::noinline]] void elements(const Range& which, i64 c, i64 n, T* to) const {
    const i64 last = n - kStep, end = (which.end - 1 + width_.pad) / kStride + 1;
    i64 o = (which.first + width_.pad) / kStride;
    // The sums of a window's elements; those of the last are completed by the next window.
    Vec<T> acc[3][kVectors] = {};
    if (is_window(o - 1)) add<U, kVectors, 2>(o - 1, c, last, acc);
    for (; o < end; ++o) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        acc[0][v] = acc[2][v];
        acc[1][v] = acc[2][v] = Vec<T>{};
      }
      if (is_window(o)) add<U, kVectors, 0>(o, c, last, acc);
#pragma GCC unroll 2
      for (int k = 0; k < 2; ++k) {
        const i64 element = o * kStride - width_.pad + k;
        if (element < which.first || element >= which.end) continue;
        T* const at = to + (element - which.first) * channels_ + c;
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) store(at + (v < kVectors - 1 ? v * kStep : last), acc[k][v]);
      }
    }
  }
  bool is_window(i64 o) const { return o >= 0 && o < width_.windows; }

  /// Adds window o to the sums of its elements from number kFirst on.
  template <class U, int kVectors, int kFirst>
  [[gnu::always_inline]] void add(i64 o, i64 c, i64 last, Vec<T> (&acc)[3][kVectors]) const {
    const i64 start = o * kStride - width_.pad - o * sources_.wanted_step;
    for (i64 i = 0; i < sources_.count; ++i) {
      const auto& line = sources_.lines[i];
      const S* const gradient = line.gradient + c + o * sources_.gradient_step;
      const unsigned char* const index = line.index + c * static_cast<i64>(sizeof(U)) + o * sources_.index_step;
      const auto wanted = static_cast<Int<T>>(line.wanted + start);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const i64 at = v < kVectors - 1 ? v * kStep : last;
        const Vec<T> x = load_elements<S, T>(gradient + at, 1, kStep);
        const Ints<T> taken = load_indices<U, T>(index + at * static_cast<i64>(sizeof(U)), 1, kStep);
#pragma GCC unroll 3
        for (int k = kFirst; k < 3; ++k)
          acc[k][v] = taken == Ints<T>{} + static_cast<Int<T>>(wanted + k) ? acc[k][v] + x : acc[k][v];
      }
    }
  }

  const WindowDim width_;
  const i64 channels_;
  const Sources sources_;
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
