// Pooling forward: lines of windows through the window skeleton, and the indices of maxima.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/pooling_indices.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// NaN counts as -infinity.
template <class T>
struct Largest {
  Vec<T> start() const { return broadcast(-static_cast<T>(__builtin_inff())); }
  Vec<T> add(Vec<T> acc, Vec<T> x) const { return larger_of<T>(x, acc); }
  Vec<T> finish(Vec<T> acc, Vec<T>) const { return acc; }
};

template <class T>
struct Mean {
  Vec<T> start() const { return Vec<T>{}; }
  Vec<T> add(Vec<T> acc, Vec<T> x) const { return acc + x; }
  Vec<T> finish(Vec<T> acc, Vec<T> elements) const { return acc / elements; }
};

template <class S>
using Arithmetic = std::conditional_t<__is_same(S, double), double, float>;

/// The maximum of no elements: the least finite number.
template <class S, class T>
T least() {
  if constexpr (__is_same(S, double)) return -__DBL_MAX__;
  if constexpr (__is_same(S, Half)) return -65504;
  if constexpr (__is_same(S, Bfloat16)) return -0x1.fep127f;
  if constexpr (__is_same(S, std::int8_t)) return -128;
  return -__FLT_MAX__;
}

template <template <class> class F, class S, bool kNumbers>
class PoolingForward {
 public:
  using T = Arithmetic<S>;

  PoolingForward(const Pooling& p, Scratch& scratch)
      : p_(p),
        width_(p.dims[2]),
        inside_(windows_inside(width_)),
        writer_(scratch, {p.scale, p.keep, p.non_temporal}, p.across_channels ? 1 : p.out_at.dims[2]),
        row_(scratch, width_),
        elements_(scratch.take<T>(width_.windows)),
        numbers_(kNumbers ? scratch.take<Int<T>>(max_of(kWriterElements, width_.windows)) : nullptr),
        values_(scratch.take<T>(kWriterElements)) {}

  /// Fills tables of the row; not done by the constructor, which also measures scratch.
  void prepare() {
    row_.clear();
    for (i64 w = 0; w < width_.windows + kLanes<T>; ++w) {
      const i64 n = w < width_.windows ? elements_of(width_, w).count() : 1;
      elements_[w] = static_cast<T>(p_.inclusive ? width_.length : max_of<i64>(n, 1));
    }
  }

  /// A line of y, and its indices if `index` has memory; only these if `values` is not set.
  void line(i64 image, i64 channel, i64 d, i64 h, const IndexLine& index, const void* in, const WindowStrides& in_at,
            bool values) {
    const Numbering numbering(p_, index.image);
    const WindowInput<S> input{static_cast<const S*>(in) + image * in_at.image + channel * in_at.channel,
                               {in_at.dims[0], in_at.dims[1], in_at.dims[2]},
                               {numbering.sizes[1] * numbering.sizes[2], numbering.sizes[2]}};
    const Range outer[2] = {elements_of(p_.dims[0], d), elements_of(p_.dims[1], h)};
    const Place place{image, channel, d, h};
    if (p_.across_channels)
      channels(input, outer, place, index, numbering, values);
    else
      row(input, outer, place, index, numbering, values);
  }

 private:
  struct Place {
    i64 image, channel, d, h;
  };

  S* out(const Place& at, i64 w) const {
    const WindowStrides& s = p_.out_at;
    return static_cast<S*>(p_.out) + at.image * s.image + at.channel * s.channel + at.d * s.dims[0] + at.h * s.dims[1] +
           w * s.dims[2];
  }

  /// Units [first, end), of `unit` elements, of the rows that the next line of windows is the first to read.
  /// Inline: GCC takes a function that only prefetches for one without effects, and leaves out calls of it.
  [[gnu::always_inline]] void prefetch(const WindowInput<S>& in, const Range (&outer)[2], i64 first, i64 end,
                                       i64 unit) const {
    constexpr i64 kLine = 64 / static_cast<i64>(sizeof(S));
    const i64 rows = p_.dims[1].stride;
    for (i64 d = outer[0].first; d < outer[0].end; ++d)
      for (i64 h = outer[1].end; h < outer[1].end + rows; ++h) {
        const S* const row = in.data + d * in.strides[0] + h * in.strides[1];
        for (i64 i = first * unit; i < end * unit; i += kLine)
          __builtin_prefetch(row + i, 0, 1);  // not to the L1 cache
      }
  }

  void channels(const WindowInput<S>& in, const Range (&outer)[2], const Place& at, const IndexLine& index,
                const Numbering& numbering, bool values) {
    for (i64 w = 0; w < width_.windows; ++w) {
      if (p_.prefetches) prefetch(in, outer, w * width_.stride, (w + 1) * width_.stride, in.strides[2]);
      const Box box{{outer[0], outer[1], elements_of(width_, w)}};
      const i64 count = box.count();
      const auto elements =
          static_cast<T>(p_.inclusive ? p_.dims[0].length * p_.dims[1].length * width_.length : count);
      const i64 base = count == 0 ? 0 : numbering.of(outer[0].first, at.d, outer[1].first, at.h, box.dims[2].first, w);
      for (i64 c = 0; c < p_.channels; c += kWriterElements) {
        const i64 n = min_of(p_.channels - c, kWriterElements);
        T* const to = values ? writer_.reserve(out(at, w) + c, n) : values_;
        if (count == 0) {
          fill_empty(to, n);
        } else {
          WindowInput<S> part = in;
          part.data += c;
          WindowChannels<F, S, T, kNumbers>::reduce(f_, part, box, elements, n, to, numbers_);
        }
        if constexpr (kNumbers) {
          if (count == 0) __builtin_memset(numbers_, 0, static_cast<std::size_t>(n) * sizeof(Int<T>));
          store_indices<T>(index.bytes, index.at(w) + c * index.bytes, 1, numbers_, n, base, 0);
        }
      }
    }
  }

  void row(const WindowInput<S>& in, const Range (&outer)[2], const Place& at, const IndexLine& index,
           const Numbering& numbering, bool values) {
    const i64 rows = outer[0].count() * outer[1].count();
    if (p_.prefetches && in.strides[2] == 1) prefetch(in, outer, 0, width_.size, 1);
    const T factor = static_cast<T>(p_.inclusive ? p_.dims[0].length * p_.dims[1].length : rows);
    const i64 most = min_of(WindowRow<F, S, T, kNumbers>::most_windows(width_), kWriterElements);
    for (i64 first = 0; first < width_.windows; first += most) {
      const Range which{first, min_of(first + most, width_.windows)};
      const i64 n = which.count();
      T* const to = values ? writer_.reserve(out(at, first), n) : values_;
      if (rows == 0) {
        fill_empty(to, n);
        if constexpr (kNumbers) clear_indices(index, which);
        continue;
      }
      scaled(factor, first, n);
      row_.reduce(f_, in, outer, which, scaled_, to, numbers_);
      const Range before{first, min_of(inside_.first, which.end)}, after{max_of(inside_.end, first), which.end};
      if constexpr (kNumbers) {
        const i64 start =
            numbering.of(0, outer[0].first, at.d) * numbering.sizes[1] + numbering.of(1, outer[1].first, at.h);
        // Numbers count from the start of the window.
        const i64 base = start * numbering.sizes[2] + (index.image ? first * width_.stride - width_.pad : 0);
        store_indices<T>(index.bytes, index.at(first), index.window_step, numbers_, n, base,
                         index.image ? width_.stride : 0);
        clear_indices(index, before);
        clear_indices(index, after);
      }
      fill_empty(to, before.count());
      fill_empty(to + (n - after.count()), after.count());
    }
  }

  /// The numbers of elements of windows from `first` on, times `factor`.
  void scaled(T factor, i64 first, i64 n) {
    if (factor == 1 || p_.maximum) {
      scaled_ = elements_ + first;
      return;
    }
    for (i64 i = 0; i < n; i += kLanes<T>) store(values_ + i, load(elements_ + first + i) * factor);
    scaled_ = values_;
  }

  void fill_empty(T* values, i64 n) const {
    const T value = p_.maximum ? least<S, T>() : 0;
    for (i64 i = 0; i < n; ++i) values[i] = value;
  }
  static void clear_indices(const IndexLine& index, Range windows) {
    for (i64 w = windows.first; w < windows.end; ++w)
      __builtin_memset(index.at(w), 0, static_cast<std::size_t>(index.bytes));
  }

  const F<T> f_{};
  const Pooling& p_;
  const WindowDim& width_;
  Range inside_;
  Writer<S, T> writer_;
  WindowRow<F, S, T, kNumbers> row_;
  T* elements_;
  Int<T>* numbers_;
  T* values_;
  const T* scaled_ = nullptr;
};

template <template <class> class F, class S, bool kNumbers>
void pooling_forward(const Pooling& p, i64 first, i64 end, void* memory) {
  Scratch scratch(memory);
  PoolingForward<F, S, kNumbers> forward(p, scratch);
  forward.prepare();
  const i64 heights = p.dims[1].windows, depths = p.dims[0].windows;
  const i64 planes = p.across_channels ? 1 : p.channels;
  for (i64 line = first; line < end; ++line) {
    const i64 h = line % heights, d = line / heights % depths, plane = line / heights / depths;
    const i64 image = plane / planes, channel = plane % planes;
    const IndexLine index = kNumbers ? index_line(p, image, channel, d, h) : IndexLine{};
    forward.line(image, channel, d, h, index, p.in, p.in_at, true);
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
