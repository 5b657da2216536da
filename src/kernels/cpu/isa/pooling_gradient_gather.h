// Rows of dx that gather from rows of windows, in vectors for every stride.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/pooling_indices.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

template <class T, std::size_t... I>
void merge_pair(Vec<T> even, Vec<T> odd, T* to, std::index_sequence<I...>) {
  constexpr auto kLane = [](std::size_t i) { return static_cast<int>(i / 2 + i % 2 * kLanes<T>); };
  store(to, __builtin_shufflevector(even, odd, kLane(I)...));
  store(to + kLanes<T>, __builtin_shufflevector(even, odd, kLane(I + static_cast<std::size_t>(kLanes<T>))...));
}

template <int kThird, class T, std::size_t... I>
void merge_third(const Vec<T> (&v)[3], T* to, std::index_sequence<I...>) {
  constexpr auto kElement = [](std::size_t i) { return kThird * static_cast<int>(kLanes<T>) + static_cast<int>(i); };
  constexpr auto kOfTwo = [](int e) { return e / 3 + (e % 3 == 1 ? static_cast<int>(kLanes<T>) : 0); };
  constexpr auto kOfThree = [](std::size_t i, int e) {
    return e % 3 == 2 ? static_cast<int>(kLanes<T>) + e / 3 : static_cast<int>(i);
  };
  const Vec<T> two = __builtin_shufflevector(v[0], v[1], kOfTwo(kElement(I))...);
  store(to + kThird * kLanes<T>, __builtin_shufflevector(two, v[2], kOfThree(I, kElement(I))...));
}

/// Element i of the result is element i / 3 of vector i % 3: shuffles of the first two, then of those and the third.
template <class T, std::size_t... I>
void merge_three(const Vec<T> (&v)[3], T* to, std::index_sequence<I...> lanes) {
  merge_third<0>(v, to, lanes);
  merge_third<1>(v, to, lanes);
  merge_third<2>(v, to, lanes);
}

/// Element q * stride + r of a row is at tap b * stride + r + pad of window q - b: for one r, neighbouring q read
/// neighbouring windows. Rows of windows are kept in lanes of T between zeros, so that neighbouring rows of dx share
/// them.
template <class S, class T, bool kMaximum>
class GatheredRow {
 public:
  GatheredRow(Scratch& scratch, const Pooling& p)
      : p_(p),
        dim_(p.dims[2]),
        depths_(slots((p.dims[0].length - 1) / p.dims[0].stride + 1)),
        heights_(slots((p.dims[1].length - 1) / p.dims[1].stride + 2)),
        before_(max_of<i64>((dim_.length - 1 - dim_.pad) / dim_.stride, 0)) {
    const i64 columns = ceil_div(dim_.size, dim_.stride);
    pitch_ = round_up(before_ + max_of(dim_.windows, columns + dim_.pad / dim_.stride + 1) + 2 * kStep, kStep);
    gradients_ = scratch.take<T>(depths_ * heights_ * pitch_);
    taps_ = kMaximum ? scratch.take<Int<T>>(depths_ * heights_ * pitch_) : nullptr;
    kept_ = scratch.take<i64>(depths_ * heights_);
    lines_ = scratch.take<Line>(depths_ * heights_);
    phase_taps_ = scratch.take<PhaseTaps>(dim_.stride);
    phases_ = scratch.take<T>(dim_.stride > 2 ? kWriterElements + kStep * dim_.stride : 0);
  }

  void clear() {
    for (i64 i = 0; i < depths_ * heights_ * pitch_; ++i) gradients_[i] = 0;
    for (i64 i = 0; i < depths_ * heights_; ++i) kept_[i] = -1;
    for (i64 r = 0; r < dim_.stride; ++r) {
      const i64 tap = r + dim_.pad, last = dim_.length - 1 - tap;
      phase_taps_[r] = {tap, -(tap / dim_.stride),
                        last >= 0 ? last / dim_.stride : -((dim_.stride - 1 - last) / dim_.stride)};
    }
  }

  /// Row (d, h) of the windows of a plane: dy, times `weights` unless maxima have indices.
  void keep(i64 plane, i64 d, i64 h, const S* dy, const T* weights, const IndexLine& index) {
    const i64 number = (plane * p_.dims[0].windows + d) * p_.dims[1].windows + h;
    i64& kept = kept_[slot(d, h)];
    if (kept == number) return;
    kept = number;
    T* const gradients = gradients_of(d, h);
    // Of an index in the image only the distance from the window's start differs between windows.
    const i64 step = index.image ? dim_.stride : 0, start = index.image ? -dim_.pad : 0;
    const i64 n = min_of(dim_.windows, kStep);
    for (i64 at = 0; at < dim_.windows; at += kStep) {
      const i64 i = min_of(at, dim_.windows - n);  // the last vector overlaps the one before
      Vec<T> x = load_elements<S, T>(dy + i * p_.in_at.dims[2], p_.in_at.dims[2], n);
      if constexpr (kMaximum)
        store(taps_of(d, h) + i,
              (Ints<T>)((Unsigneds<T>)load_indices<T>(index.bytes, index.at(i), index.window_step, n) -
                        static_cast<Unsigned<T>>(start + i * step) -
                        (Unsigneds<T>)lane_numbers<T>() * static_cast<Unsigned<T>>(step)));
      else
        x = n == kStep ? x * load(weights + i) : x * load_elements<T, T>(weights + i, 1, n);
      store(gradients + i, x);
    }
  }

  /// Elements [first, end) of a row of dx, at most kWriterElements; `first` is a multiple of the stride. at(d, h) is
  /// the weight of a row of windows or, with kMaximum, the index of its tap 0. Up to two vectors after them may be
  /// written.
  template <class At>
  void gather(Range depths, Range heights, Range which, const At& at, T* to) {
    if (dim_.windows == 1) return gather_one(depths, heights, which, at, to);
    i64 lines = 0;
    for (i64 d = depths.first; d < depths.end; ++d)
      for (i64 h = heights.first; h < heights.end; ++h)
        lines_[lines++] = {gradients_of(d, h), kMaximum ? taps_of(d, h) : nullptr, at(d, h)};
    const i64 stride = dim_.stride, first = which.first / stride, columns = ceil_div(which.count(), stride);
    for (i64 q = 0; q < columns; q += kStep) {
      if (stride == 1) {
        store(to + q, sum(lines, first + q, 0));
      } else if (stride == 2) {
        merge_pair(sum(lines, first + q, 0), sum(lines, first + q, 1), to + 2 * q,
                   std::make_index_sequence<static_cast<std::size_t>(kStep)>{});
      } else if (stride == 3) {
        const Vec<T> phases[] = {sum(lines, first + q, 0), sum(lines, first + q, 1), sum(lines, first + q, 2)};
        const i64 n = min_of(which.count() - 3 * q, 3 * kStep);
        T* const merged = n == 3 * kStep ? to + 3 * q : phases_;
        merge_three(phases, merged, std::make_index_sequence<static_cast<std::size_t>(kStep)>{});
        if (merged == phases_) __builtin_memcpy(to + 3 * q, merged, static_cast<std::size_t>(n) * sizeof(T));
      } else {
        for (i64 r = 0; r < stride; ++r) store(phases_ + r * kStep, sum(lines, first + q, r));
        const i64 n = min_of(columns - q, kStep);
        for (i64 c = 0; c < n; ++c)
          for (i64 r = 0; r < stride && (q + c) * stride + r < which.count(); ++r)
            to[(q + c) * stride + r] = phases_[r * kStep + c];
      }
    }
  }

 private:
  static constexpr i64 kStep = kLanes<T>;

  /// A row of windows that covers a row of dx, and its weight or the index of its tap 0.
  struct Line {
    const T* gradients;
    const Int<T>* taps;
    std::conditional_t<kMaximum, Int<T>, T> weight;
  };
  /// Element q * stride + r is at tap b * stride + tap of window q - b, for b in [low, high].
  struct PhaseTaps {
    i64 tap, low, high;
  };

  /// A power of two: rows need no divisions.
  static i64 slots(i64 rows) {
    i64 n = 1;
    while (n < rows) n *= 2;
    return n;
  }
  i64 slot(i64 d, i64 h) const { return (d & (depths_ - 1)) * heights_ + (h & (heights_ - 1)); }
  T* gradients_of(i64 d, i64 h) const { return gradients_ + slot(d, h) * pitch_ + before_; }
  Int<T>* taps_of(i64 d, i64 h) const { return taps_ + slot(d, h) * pitch_ + before_; }

  /// Elements of phase r in columns [q, q + kStep).
  [[gnu::always_inline]] Vec<T> sum(i64 lines, i64 q, i64 r) const {
    const PhaseTaps taps = phase_taps_[r];
    // Unrolled for the windows of most networks; those that do not exist have gradients of zero.
    switch (taps.high - taps.low) {
      case 0: return sum_windows<1>(lines, q, taps.tap, {taps.low, taps.high + 1});
      case 1: return sum_windows<2>(lines, q, taps.tap, {taps.low, taps.high + 1});
      default:
        return sum_windows<0>(lines, q, taps.tap,
                              {max_of(taps.low, q - (dim_.windows - 1)), min_of(taps.high, q + kStep - 1) + 1});
    }
  }
  /// Of windows q - b; kCount: how many, or 0.
  template <int kCount>
  [[gnu::always_inline]] Vec<T> sum_windows(i64 lines, i64 q, i64 tap, Range windows) const {
    Vec<T> acc{};
    for (i64 i = 0; i < lines; ++i) {
      const Line line = lines_[i];
#pragma GCC unroll 2
      for (i64 b = windows.first; kCount > 0 ? b < windows.first + kCount : b < windows.end; ++b) {
        const Vec<T> x = load(line.gradients + q - b);
        if constexpr (kMaximum) {
          const auto wanted = static_cast<Int<T>>(line.weight + b * dim_.stride + tap);
          const Ints<T> taken = load(line.taps + q - b);
          acc = taken == Ints<T>{} + wanted ? acc + x : acc;
        } else {
          acc = acc + x * line.weight;
        }
      }
    }
    return acc;
  }

  /// The same with a single window.
  template <class At>
  void gather_one(Range depths, Range heights, Range which, const At& at, T* to) {
    for (i64 i = 0; i < which.count(); ++i) to[i] = 0;
    const Range inside = elements_of(dim_, 0);
    T value = 0;
    for (i64 d = depths.first; d < depths.end; ++d)
      for (i64 h = heights.first; h < heights.end; ++h) {
        if constexpr (kMaximum) {
          const i64 element = static_cast<Int<T>>(taps_of(d, h)[0] - i64{at(d, h)}) - dim_.pad;
          if (element >= max_of(which.first, inside.first) && element < min_of(which.end, inside.end))
            to[element - which.first] += gradients_of(d, h)[0];
        } else {
          value += gradients_of(d, h)[0] * at(d, h);
        }
      }
    if constexpr (!kMaximum)
      for (i64 i = max_of(which.first, inside.first); i < min_of(which.end, inside.end); ++i)
        to[i - which.first] = value;
  }

  const Pooling& p_;
  const WindowDim& dim_;
  i64 depths_, heights_, before_, pitch_;  // rows of windows that are kept; zeros before a row, elements per row
  T *gradients_, *phases_;
  Int<T>* taps_;
  i64* kept_;
  Line* lines_;
  PhaseTaps* phase_taps_;  // of each r < stride
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
