// The gradient of maximum pooling of images whose windows follow each other in memory: the elements of maxima are found
// in vectors of windows, then added to one after the other. Windows are taken in order.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/pooling_scattered_planes.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Not of doubles, which lack conversions of whole vectors of integers.
template <class S>
class FlatScatter : ScatteredPlanes<S> {
  using Base = ScatteredPlanes<S>;
  using Base::elements_;
  using Base::kRead;
  using Base::kStep;
  using Base::p_;
  using Base::positions_;
  using Base::sums_;

 public:
  using typename Base::T;

  FlatScatter(const Pooling& p, Scratch& scratch)
      : Base(p, scratch, planes_at_once(p)),
        windows_(windows_of_plane(p)),
        planes_(planes_at_once(p)),
        tops_(scratch.take<Int<T>>(windows_ * planes_)),
        lefts_(scratch.take<Int<T>>(windows_ * planes_)),
        starts_(scratch.take<Int<T>>(windows_ * planes_)) {}

  static bool is_applicable(const Pooling& p) {
    constexpr i64 kMostWindows = 1 << 14, kMostLength = 1 << 16;  // of tables; of exact quotients of floats
    const WindowDim(&k)[3] = p.dims;
    return k[0].size == 1 && k[0].windows == 1 && k[0].length == 1 && k[0].pad == 0 &&
           windows_of_plane(p) <= kMostWindows && k[1].length * k[2].length <= kMostLength && Base::is_one_run(p) &&
           Base::has_rows_together(p.in_at, k[2].windows) && Base::has_rows_together(p.index_at, k[2].windows);
  }

  /// Fills tables; not done by the constructor, which also measures scratch.
  void prepare() {
    const WindowDim &height = p_.dims[1], &width = p_.dims[2];
    i64 i = 0;
    for (i64 plane = 0; plane < planes_; ++plane)
      for (i64 h = 0; h < height.windows; ++h) {
        const i64 top = h * height.stride - height.pad, row = plane * elements_ + top * width.size;
        for (i64 w = 0; w < width.windows; ++w, ++i) {
          const i64 left = w * width.stride - width.pad;
          tops_[i] = static_cast<Int<T>>(top);
          lefts_[i] = static_cast<Int<T>>(left);
          starts_[i] = static_cast<Int<T>>(row + left);
        }
      }
  }

  /// Planes [first, end) of images and channels.
  void planes(i64 first, i64 end) {
    for (i64 n; first < end; first += n) add_group(first, n = min_of(planes_, end - first));
  }

 private:
  static i64 windows_of_plane(const Pooling& p) { return p.dims[1].windows * p.dims[2].windows; }
  static i64 planes_at_once(const Pooling& p) {
    constexpr i64 kMostElements = 4096;  // 16 KiB of floats
    const i64 windows = windows_of_plane(p), elements = p.dims[1].size * p.dims[2].size;
    const auto follow = [&](const WindowStrides& s, i64 n) { return s.channel == n && s.image == n * p.channels; };
    const bool together = follow(p.in_at, windows) && follow(p.index_at, windows) && follow(p.out_at, elements);
    return together ? max_of<i64>(1, min_of(kRead / windows, kMostElements / elements)) : 1;
  }

  /// `planes` planes from number `first` on.
  void add_group(i64 first, i64 planes) {
    const i64 image = first / p_.channels, channel = first % p_.channels, count = planes * windows_;
    Base::start(image, channel, planes);
    const S* const gradient = static_cast<const S*>(p_.in) + image * p_.in_at.image + channel * p_.in_at.channel;
    const IndexLine index = index_line(p_, image, channel, 0, 0);
    alignas(64) T value_buffer[kRead];
    alignas(64) Int<T> index_buffer[kRead], elements[kRead];
    for (i64 done = 0; done < count; done += kRead) {
      const i64 n = min_of(kRead, count - done);
      const T* const values = Base::values_at(gradient + done, 1, n, value_buffer);
      const bool all = find_elements(Base::indices_at(index, done, n, index_buffer), done, n, elements);
      if (all) {
#pragma GCC unroll 4
        for (i64 i = 0; i < n; ++i) sums_[elements[i]] += values[i];
      } else {
        for (i64 i = 0; i < n; ++i)
          if (elements[i] >= 0) sums_[elements[i]] += values[i];
      }
    }
    Base::finish(image, channel, planes);
  }

  /// The elements of the maxima of n windows from number `first` of the planes on, -1 in the padding and beyond the
  /// window. Whether all exist.
  bool find_elements(const Int<T>* indices, i64 first, i64 n, Int<T>* elements) const {
    const WindowDim &height = p_.dims[1], &width = p_.dims[2];
    const Int<T> length = static_cast<Int<T>>(width.length), past = static_cast<Int<T>>(width.size - width.length);
    const T rows = 1 / static_cast<T>(width.length);
    const auto below = [](Ints<T> v, i64 end) { return (Unsigneds<T>)v < static_cast<Unsigned<T>>(end); };
    Ints<T> missing{};
    for (i64 i = 0; i < n; i += kStep) {
      const i64 at = max_of<i64>(min_of(i, n - kStep), 0);  // the last vector overlaps the one before
      Ints<T> index = n < kStep ? load_lanes(indices, 0, static_cast<int>(n)) : load(indices + at);
      Ints<T> exists = below(index, p_.image_index ? elements_ : positions_);
      index = exists ? index : Ints<T>{};
      const Ints<T> top = load(tops_ + first + at), left = load(lefts_ + first + at);
      Ints<T> element = load(starts_ + first + at) + index;
      if (p_.image_index) {
        element -= top * static_cast<Int<T>>(width.size) + left;
      } else {
        const Ints<T> h = __builtin_convertvector((__builtin_convertvector(index, Vec<T>) + T{0.5}) * rows, Ints<T>);
        exists &= below(top + h, height.size) & below(left + index - h * length, width.size);
        element += h * past;
      }
      missing |= ~exists;
      store(elements + at, exists ? element : Ints<T>{} - 1);
    }
    bool all = true;
    for (int i = 0; i < kStep; ++i) all &= missing[i] == 0;
    return all;
  }

  const i64 windows_, planes_;  // of a plane; at once
  // Of each window of the planes: its row and column, and the element there, from the first plane's first on.
  Int<T>*const tops_, *const lefts_, *const starts_;
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
