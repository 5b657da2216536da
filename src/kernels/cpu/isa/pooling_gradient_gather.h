// Rows of dx that gather from rows of windows, in vectors for every stride.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/pooling_kept_windows.h"

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

/// A row of windows that covers a row of dx: gradients and the indices of their maxima, and the index of its tap 0.
template <class T, bool kMaximum>
struct WindowLine {
  const T* gradients;
  const Int<T>* taps;
  Int<T> wanted;
};
/// Element q * stride + r is at tap b * stride + tap of window q - b, for b in [low, high].
struct PhaseTaps {
  i64 tap, low, high;
};

/// Elements of a phase in columns [q, q + kLanes<T>), from windows q - b. kLines, kWindows: how many, or 0.
template <int kLines, int kWindows, class T, bool kMaximum>
[[gnu::always_inline]] inline Vec<T> sum_windows(const WindowLine<T, kMaximum>* lines, i64 count, i64 q, i64 stride,
                                                 i64 tap, Range windows) {
  Vec<T> acc{};
  const i64 each = kWindows > 0 ? kWindows : windows.count();
#pragma GCC unroll 3
  for (i64 i = 0; i < (kLines > 0 ? kLines : count); ++i) {
    const auto line = lines[i];
#pragma GCC unroll 3
    for (i64 k = 0; k < each; ++k) {
      const i64 b = windows.first + k;
      const Vec<T> x = load(line.gradients + q - b);
      if constexpr (kMaximum) {
        const auto wanted = static_cast<Int<T>>(line.wanted + b * stride + tap);
        const Ints<T> taken = load(line.taps + q - b);
        acc = taken == Ints<T>{} + wanted ? acc + x : acc;
      } else {
        acc = acc + x;
      }
    }
  }
  return acc;
}

/// `columns` columns of a row from number `first` on. kWindows: of even elements and, with stride 2, of odd ones.
template <int kLines, class T, bool kMaximum, int... kWindows>
void gather_phases(const WindowLine<T, kMaximum>* given, const PhaseTaps* phases, i64 first, i64 columns, T* to) {
  constexpr i64 kStep = kLanes<T>, kStride = sizeof...(kWindows);
  static_assert(kStride <= 2);
  // Copies, which the stores cannot change.
  WindowLine<T, kMaximum> lines[kLines];
  for (int i = 0; i < kLines; ++i) lines[i] = given[i];
  const PhaseTaps even = phases[0], odd = phases[kStride - 1];
  const auto sum = [&]<int kCount>(i64 q, const PhaseTaps& taps) {
    return sum_windows<kLines, kCount>(lines, kLines, first + q, kStride, taps.tap, {taps.low, taps.low + kCount});
  };
  constexpr int kCounts[] = {kWindows...};
  for (i64 q = 0; q < columns; q += kStep) {
    const Vec<T> x = sum.template operator()<kCounts[0]>(q, even);
    if constexpr (kStride == 1)
      store(to + q, x);
    else
      merge_pair(x, sum.template operator()<kCounts[1]>(q, odd), to + 2 * q,
                 std::make_index_sequence<static_cast<std::size_t>(kStep)>{});
  }
}

template <class S, class T, bool kMaximum>
class GatheredRows {
 public:
  GatheredRows(Scratch& scratch, const Pooling& p)
      : p_(p),
        dim_(p.dims[2]),
        numbering_(p, p.index_bytes > 0 && p.image_index),
        columns_(ceil_div(dim_.size, dim_.stride)),
        most_columns_(kWriterElements / dim_.stride),
        windows_(scratch, p, columns_),
        lines_(scratch.take<Line>(windows_.most_lines())),
        phase_taps_(scratch.take<PhaseTaps>(dim_.stride)),
        phases_(scratch.take<T>(dim_.stride > 2 ? kWriterElements + kStep * dim_.stride : 0)) {}

  void clear() {
    windows_.clear();
    for (i64 r = 0; r < dim_.stride; ++r) {
      const i64 tap = r + dim_.pad, last = dim_.length - 1 - tap;
      phase_taps_[r] = {tap, -(tap / dim_.stride),
                        last >= 0 ? last / dim_.stride : -((dim_.stride - 1 - last) / dim_.stride)};
    }
    common_[1] = common<1>();
    common_[2] = common<2>();
    common_[3] = common<3>();
  }

  /// Those of the rows that are gathered next.
  KeptWindows<S, T, kMaximum>& windows() { return windows_; }

  /// Row (d, h) of dx, from the windows in `depths` and `heights`. reserve(first, n): where its n <= kWriterElements
  /// elements from number `first` on belong; up to two vectors may be written after them.
  template <class Reserve>
  void gather(i64 d, i64 h, Range depths, Range heights, const Reserve& reserve) {
    i64 lines = 0;
    for (i64 od = depths.first; od < depths.end; ++od)
      for (i64 oh = heights.first; oh < heights.end; ++oh)
        lines_[lines++] = {windows_.gradients_of(od, oh), kMaximum ? windows_.taps_of(od, oh) : nullptr,
                           kMaximum ? tap_zero(d, od, h, oh) : 0};
    for (i64 q = 0, first = 0; first < dim_.size; q += most_columns_, first += most_columns_ * dim_.stride) {
      const Range which{first, min_of(first + most_columns_ * dim_.stride, dim_.size)};
      const i64 columns = min_of(most_columns_, columns_ - q);
      T* const to = reserve(first, which.count());
      if (lines <= kMostLines && common_[lines])
        common_[lines](lines_, phase_taps_, q, columns, to);
      else
        gather_any(lines, which, q, columns, to);
    }
  }

 private:
  static constexpr i64 kStep = kLanes<T>, kMostLines = 3;
  using Line = WindowLine<T, kMaximum>;

  Int<T> tap_zero(i64 d, i64 od, i64 h, i64 oh) const {
    const i64(&sizes)[3] = numbering_.sizes;
    return static_cast<Int<T>>((numbering_.of(0, d, od) * sizes[1] + numbering_.of(1, h, oh)) * sizes[2]);
  }

  using GatherPhases = void (*)(const Line*, const PhaseTaps*, i64, i64, T*);

  /// The kernel for the windows of most networks, or null.
  template <int kLines>
  GatherPhases common() const {
    const auto windows = [&](i64 r) { return phase_taps_[r].high - phase_taps_[r].low + 1; };
    if (dim_.windows == 1 || dim_.stride > 2) return nullptr;
    if (dim_.stride == 1) return windows(0) == 3 ? gather_phases<kLines, T, kMaximum, 3> : nullptr;
    if (windows(0) == 2 && windows(1) == 1) return gather_phases<kLines, T, kMaximum, 2, 1>;
    if (windows(0) != 1) return nullptr;
    return windows(1) == 1   ? gather_phases<kLines, T, kMaximum, 1, 1>
           : windows(1) == 2 ? gather_phases<kLines, T, kMaximum, 1, 2>
                             : nullptr;
  }

  /// `columns` columns from number first on, which are elements `which`.
  [[gnu::noinline]] void gather_any(i64 lines, Range which, i64 first, i64 columns, T* to) const {
    if (dim_.windows == 1) return gather_one(lines, which, to);
    const i64 stride = dim_.stride;
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

  /// Elements of phase r in columns [q, q + kStep); windows that do not exist have gradients of zero.
  [[gnu::always_inline]] Vec<T> sum(i64 lines, i64 q, i64 r) const {
    const PhaseTaps taps = phase_taps_[r];
    const i64 stride = dim_.stride;
    switch (taps.high - taps.low) {
      case 0: return sum_windows<0, 1>(lines_, lines, q, stride, taps.tap, {taps.low, taps.high + 1});
      case 1: return sum_windows<0, 2>(lines_, lines, q, stride, taps.tap, {taps.low, taps.high + 1});
      default:
        return sum_windows<0, 0>(lines_, lines, q, stride, taps.tap,
                                 {max_of(taps.low, q - (dim_.windows - 1)), min_of(taps.high, q + kStep - 1) + 1});
    }
  }

  /// The same with a single window.
  void gather_one(i64 lines, Range which, T* to) const {
    for (i64 i = 0; i < which.count(); ++i) to[i] = 0;
    const Range inside = elements_of(dim_, 0);
    T value = 0;
    for (i64 i = 0; i < lines; ++i) {
      const Line& line = lines_[i];
      if constexpr (kMaximum) {
        const i64 element = static_cast<Int<T>>(line.taps[0] - i64{line.wanted}) - dim_.pad;
        if (element >= max_of(which.first, inside.first) && element < min_of(which.end, inside.end))
          to[element - which.first] += line.gradients[0];
      } else {
        value += line.gradients[0];
      }
    }
    if constexpr (!kMaximum)
      for (i64 i = max_of(which.first, inside.first); i < min_of(which.end, inside.end); ++i)
        to[i - which.first] = value;
  }

  const Pooling& p_;
  const WindowDim& dim_;
  const Numbering numbering_;
  const i64 columns_, most_columns_;  // of a row, and of a call of reserve()
  KeptWindows<S, T, kMaximum> windows_;
  Line* const lines_;
  PhaseTaps* const phase_taps_;  // of each r < stride
  T* const phases_;
  GatherPhases common_[kMostLines + 1] = {};  // for so many rows of windows
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
