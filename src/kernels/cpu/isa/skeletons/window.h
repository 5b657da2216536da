// The window skeleton: reduces every window of a line of tensor elements to one value, in vectors of contiguous
// channels (WindowChannels) or of windows along a row (WindowRow). The functor is written once:
// SPDX-License-Identifier: MIT
//
//   template <class T>
//   struct Largest {
//     Vec<T> start() const;                              // the value of no elements
//     Vec<T> add(Vec<T> acc, Vec<T> x) const;
//     Vec<T> finish(Vec<T> acc, Vec<T> elements) const;  // `elements` is what the caller gave for the window
//   };
//
// With numbers, add() is x > acc ? x : acc, and the number of the element taken is kept, the first of equal ones.
// Callers store results through a Writer (results.h).
#pragma once
#include "kernels/cpu/isa/skeletons/results.h"
#include "kernels/cpu/window.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

template <class T>
using Int = typename Float<T>::Int;

/// The first n <= kLanes<T> of elements that are `step` apart, zero elsewhere.
template <class S, class T>
[[gnu::always_inline]] inline Vec<T> load_elements(const S* p, i64 step, i64 n) {
  if (step == 1) {
    if (n == kLanes<T>) return Elements<S, T>::load(p, 0);
    if constexpr (__is_same(S, T)) return load_lanes(p, 0, static_cast<int>(n));
    if constexpr (kIs16BitFloat<S>) return load_widened(p, static_cast<int>(n));
  }
  S part[kLanes<T>] = {};
  for (i64 i = 0; i < n; ++i) part[i] = p[i * step];
  return Elements<S, T>::load(part, 0);
}

/// The elements that windows cover, slowest dimension first.
struct Box {
  Range dims[3];
  i64 count() const { return dims[0].count() * dims[1].count() * dims[2].count(); }
};

/// The input of windows: element (0, 0, 0) of an image, and how far the numbers of neighbours are apart; those of the
/// last dimension are 1 apart. The first element of a box has number 0.
template <class S>
struct WindowInput {
  const S* data;
  i64 strides[3];
  i64 number_steps[2];
};

/// Adds elements that come after those before.
template <bool kNumbers, class T, class F>
[[gnu::always_inline]] inline void take(const F& f, Vec<T>& acc, Ints<T>& at, Vec<T> x, Int<T> number) {
  if constexpr (kNumbers) {
    const auto larger = x > acc;
    acc = larger ? x : acc;
    at = larger ? Ints<T>{} + number : at;
  } else {
    acc = f.add(acc, x);
  }
}

/// Adds elements in any order.
template <class T>
[[gnu::always_inline]] inline void take_first(Vec<T>& acc, Ints<T>& at, Vec<T> x, Ints<T> number) {
  const auto better = (x > acc) | ((x == acc) & (number < at));
  acc = better ? x : acc;
  at = better ? number : at;
}

template <template <class> class F, class S, class T, bool kNumbers>
struct WindowChannels {
  /// One window of n contiguous channels. `numbers` may be null without kNumbers.
  static void reduce(const F<T>& f, const WindowInput<S>& in, const Box& box, T elements, i64 n, T* values,
                     Int<T>* numbers) {
    i64 c = 0;
    for (; c + 4 * kStep <= n; c += 4 * kStep) channel_block<4>(f, in, box, elements, c, kStep, values, numbers);
    for (; c + kStep <= n; c += kStep) channel_block<1>(f, in, box, elements, c, kStep, values, numbers);
    if (c == n) return;
    if (n >= kStep) c = n - kStep;  // the last vector overlaps the one before
    channel_block<1>(f, in, box, elements, c, n - c, values, numbers);
  }

 private:
  static constexpr i64 kStep = kLanes<T>;

  template <int kVectors>
  static void channel_block(const F<T>& f, const WindowInput<S>& in, const Box& box, T elements, i64 c, i64 n,
                            T* values, Int<T>* numbers) {
    Vec<T> acc[kVectors];
    Ints<T> at[kVectors] = {};
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) acc[v] = f.start();
    const i64 width = box.dims[2].count(), count = kVectors == 1 ? n : kStep;
    i64 number = 0;
    for (i64 d = box.dims[0].first; d < box.dims[0].end; ++d, number += in.number_steps[0])
      for (i64 h = box.dims[1].first; h < box.dims[1].end; ++h) {
        const S* p = in.data + d * in.strides[0] + h * in.strides[1] + box.dims[2].first * in.strides[2] + c;
        i64 here = number + (h - box.dims[1].first) * in.number_steps[1];
        for (i64 w = 0; w < width; ++w, p += in.strides[2], ++here) {
#pragma GCC unroll 4
          for (int v = 0; v < kVectors; ++v)
            take<kNumbers, T>(f, acc[v], at[v], load_elements<S, T>(p + v * kStep, 1, count),
                              static_cast<Int<T>>(here));
        }
      }
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      store(values + c + v * kStep, f.finish(acc[v], broadcast<T>(elements)));
      if constexpr (kNumbers) store(numbers + c + v * kStep, at[v]);
    }
  }
};

/// Windows of a row, at most most_windows(), and buffers for them.
template <template <class> class F, class S, class T, bool kNumbers>
class WindowRow {
 public:
  WindowRow(Scratch& scratch, const WindowDim& dim) : dim_(dim) {
    const i64 length = (most_windows(dim) - 1) * dim.stride + dim.length;
    pitch_ = round_up(ceil_div(length, dim.stride) + kStep, kStep);
    row_ = scratch.take<T>(round_up(length, kStep));
    row_numbers_ = kNumbers ? scratch.take<Int<T>>(round_up(length, kStep)) : nullptr;
    const bool phases = dim.stride > 1 && dim.windows > 1;
    phases_ = phases ? scratch.take<T>(pitch_ * dim.stride) : row_;
    phase_numbers_ = kNumbers && phases ? scratch.take<Int<T>>(pitch_ * dim.stride) : row_numbers_;
  }

  /// Lanes that belong to no window are computed, too: what is in fresh memory may be slow to compute with.
  void clear() {
    const i64 length = round_up((most_windows(dim_) - 1) * dim_.stride + dim_.length, kStep);
    __builtin_memset(row_, 0, static_cast<std::size_t>(length + kStep) * sizeof(T));
    if (phases_ != row_) __builtin_memset(phases_, 0, static_cast<std::size_t>(pitch_ * dim_.stride) * sizeof(T));
  }

  static i64 most_windows(const WindowDim& dim) {
    return min_of(dim.windows, max_of<i64>((2048 - dim.length) / dim.stride + 1, dim.stride <= 64 ? 16 : 1));
  }

  /// Windows `which`, over the elements of two ranges in the slower dimensions, which are not empty. `elements`, from
  /// the first of these windows on, is what finish() gets. A number counts from the window's start, even if that is
  /// in the padding.
  void reduce(const F<T>& f, const WindowInput<S>& in, const Range (&outer)[2], Range which, const T* elements,
              T* values, Int<T>* numbers) {
    const i64 windows = which.count(), start = which.first * dim_.stride - dim_.pad;
    const i64 length = (windows - 1) * dim_.stride + dim_.length;
    const i64 first = min_of(max_of<i64>(-start, 0), length);
    const i64 end = max_of(min_of(length, dim_.size - start), first);
    if (windows == 1) return reduce_one(f, in, outer, start, first, end, elements[0], values, numbers);
    fill(f, 0, first);
    reduce_columns(f, in, outer, start, first, end);
    fill(f, end, round_up(length, kStep));
    if (dim_.stride > 1) split(length);
    for (i64 o = 0; o < windows; o += kStep) {
      Vec<T> acc = f.start();
      Ints<T> at = Ints<T>{} + kPadding;
      const i64 most = dim_.stride;
      for (i64 k = 0, phase = 0, shift = 0; k < dim_.length; ++k) {
        const Vec<T> x = load(phases_ + phase * pitch_ + shift + o);
        if constexpr (kNumbers)
          take_first<T>(acc, at, x, load(phase_numbers_ + phase * pitch_ + shift + o) + static_cast<Int<T>>(k));
        else
          acc = f.add(acc, x);
        if (++phase == most) {
          phase = 0;
          ++shift;
        }
      }
      store(values + o, f.finish(acc, load(elements + o)));
      if constexpr (kNumbers) store(numbers + o, at);
    }
  }

 private:
  static constexpr i64 kStep = kLanes<T>;
  /// The number of padding: never the least one.
  static constexpr Int<T> kPadding = Int<T>{1} << 30;

  void fill(const F<T>& f, i64 from, i64 to) {
    const T none = f.start()[0];
    for (i64 i = from; i < to; ++i) {
      row_[i] = none;
      if constexpr (kNumbers) row_numbers_[i] = kPadding;
    }
  }

  /// Reduces the slower dimensions of columns [first, end); column i is at element start + i.
  void reduce_columns(const F<T>& f, const WindowInput<S>& in, const Range (&outer)[2], i64 start, i64 first, i64 end) {
    i64 i = first;
    if (in.strides[2] == 1)
      for (; i + 4 * kStep <= end; i += 4 * kStep) column_block<4>(f, in, outer, start, i, kStep);
    for (; i < end; i += kStep) column_block<1>(f, in, outer, start, i, min_of(end - i, kStep));
  }

  template <int kVectors>
  void column_block(const F<T>& f, const WindowInput<S>& in, const Range (&outer)[2], i64 start, i64 i, i64 n) {
    Vec<T> acc[kVectors];
    Ints<T> at[kVectors] = {};
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) acc[v] = f.start();
    const i64 step = kVectors == 1 ? in.strides[2] : 1, count = kVectors == 1 ? n : kStep;
    const S* const column = in.data + (start + i) * in.strides[2];
    i64 number = 0;
    for (i64 d = outer[0].first; d < outer[0].end; ++d, number += in.number_steps[0])
      for (i64 h = outer[1].first; h < outer[1].end; ++h) {
        const S* const p = column + d * in.strides[0] + h * in.strides[1];
        const i64 here = number + (h - outer[1].first) * in.number_steps[1];
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v)
          take<kNumbers, T>(f, acc[v], at[v], load_elements<S, T>(p + v * kStep, step, count),
                            static_cast<Int<T>>(here));
      }
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      store(row_ + i + v * kStep, acc[v]);
      if constexpr (kNumbers) store(row_numbers_ + i + v * kStep, at[v]);
    }
  }

  /// One window, whose columns [first, end) exist.
  void reduce_one(const F<T>& f, const WindowInput<S>& in, const Range (&outer)[2], i64 start, i64 first, i64 end,
                  T elements, T* values, Int<T>* numbers) {
    Vec<T> acc = f.start();
    Ints<T> at = Ints<T>{} + static_cast<Int<T>>(first);  // the element that counts if all are NaN
    i64 number = 0;
    for (i64 d = outer[0].first; d < outer[0].end; ++d, number += in.number_steps[0])
      for (i64 h = outer[1].first; h < outer[1].end; ++h) {
        const S* const p = in.data + d * in.strides[0] + h * in.strides[1] + start * in.strides[2];
        const i64 here = number + (h - outer[1].first) * in.number_steps[1];
        for (i64 i = first; i < end; i += kStep) {
          const i64 n = min_of(end - i, kStep);
          const auto exists = lane_numbers<T>() < static_cast<Int<T>>(n);
          const Vec<T> x = exists ? load_elements<S, T>(p + i * in.strides[2], in.strides[2], n) : f.start();
          if constexpr (kNumbers)
            take_first<T>(acc, at, x,
                          exists ? lane_numbers<T>() + static_cast<Int<T>>(here + i) : Ints<T>{} + kPadding);
          else
            acc = f.add(acc, x);
        }
      }
    merge_lanes<kStep / 2>(f, acc, at);
    values[0] = f.finish(acc, broadcast<T>(elements))[0];
    if constexpr (kNumbers) numbers[0] = at[0];
  }

  /// Merges lanes [kHalf, 2 kHalf) into lanes [0, kHalf), and so on, down to lane 0.
  template <i64 kHalf>
  static void merge_lanes(const F<T>& f, Vec<T>& acc, Ints<T>& at) {
    if constexpr (kHalf > 0) {
      const auto lanes = std::make_index_sequence<static_cast<std::size_t>(kStep)>{};
      const Vec<T> upper = moved_down<kHalf>(acc, lanes);
      if constexpr (kNumbers)
        take_first<T>(acc, at, upper, moved_down<kHalf>(at, lanes));
      else
        acc = f.add(acc, upper);
      merge_lanes<kHalf / 2>(f, acc, at);
    }
  }
  template <i64 kBy, class V, std::size_t... L>
  static V moved_down(V v, std::index_sequence<L...>) {
    return __builtin_shufflevector(v, v, static_cast<int>((L + kBy) % kStep)...);
  }

  /// Distributes the row to phases: phase r has columns r, r + stride, ...
  void split(i64 length) {
    if (dim_.stride == 2) {
      const auto lanes = std::make_index_sequence<static_cast<std::size_t>(kStep)>{};
      for (i64 i = 0; i < length; i += 2 * kStep) {
        split_pair(row_ + i, phases_ + i / 2, phases_ + pitch_ + i / 2, lanes);
        if constexpr (kNumbers)
          split_pair(row_numbers_ + i, phase_numbers_ + i / 2, phase_numbers_ + pitch_ + i / 2, lanes);
      }
      return;
    }
    for (i64 i = 0, q = 0; i < length; ++q)
      for (i64 r = 0; r < dim_.stride && i < length; ++r, ++i) {
        phases_[r * pitch_ + q] = row_[i];
        if constexpr (kNumbers) phase_numbers_[r * pitch_ + q] = row_numbers_[i];
      }
  }
  template <class U, std::size_t... I>
  static void split_pair(const U* from, U* even, U* odd, std::index_sequence<I...>) {
    const Vec<U> a = load(from), b = load(from + kStep);
    store(even, __builtin_shufflevector(a, b, static_cast<int>(2 * I)...));
    store(odd, __builtin_shufflevector(a, b, static_cast<int>(2 * I + 1)...));
  }

  const WindowDim& dim_;
  i64 pitch_;
  T *row_, *phases_;
  Int<T>*row_numbers_, *phase_numbers_;
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
