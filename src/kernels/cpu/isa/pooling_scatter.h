// The gradient of maximum pooling by scattering: every element of dy is added where its index points, into a plane of
// one channel that stays in the cache. Windows are taken in order, so that sums do not depend on threads.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/pooling_flat_scatter.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

template <class S>
class PoolingScatter : ScatteredPlanes<S> {
  using Base = ScatteredPlanes<S>;
  using Base::elements_;
  using Base::kRead;
  using Base::p_;
  using Base::positions_;
  using Base::sums_;

 public:
  using typename Base::T;

  PoolingScatter(const Pooling& p, Scratch& scratch)
      : Base(p, scratch, 1), inside_(windows_without_padding(p.dims[2])), places_(scratch.take<Place>(positions_)) {}

  /// Fills tables; not done by the constructor, which also measures scratch.
  void prepare() {
    const WindowDim* const k = p_.dims;
    for (i64 i = 0; i < positions_; ++i) {
      const i64 w = i % k[2].length, h = i / k[2].length % k[1].length, d = i / k[2].length / k[1].length;
      places_[i] = {in_plane(d, h, w), h, w};
    }
  }

  /// Planes [first, end) of images and channels.
  void planes(i64 first, i64 end) {
    for (; first < end; ++first) plane(first / p_.channels, first % p_.channels);
  }

 private:
  /// A position in a window: its element relative to that at the window's start, and its row and column.
  struct Place {
    i64 offset, h, w;
  };

  static Range windows_without_padding(const WindowDim& dim) {
    const i64 room = dim.size + dim.pad - dim.length, first = ceil_div(dim.pad, dim.stride);
    return {first, max_of(first, room < 0 ? 0 : room / dim.stride + 1)};
  }
  static bool is_below(i64 v, i64 end) { return static_cast<std::uint64_t>(v) < static_cast<std::uint64_t>(end); }
  i64 in_plane(i64 d, i64 h, i64 w) const { return (d * p_.dims[1].size + h) * p_.dims[2].size + w; }

  void plane(i64 image, i64 channel) {
    Base::start(image, channel, 1);
    const Range depths = windows_inside(p_.dims[0]), heights = windows_inside(p_.dims[1]),
                widths = windows_inside(p_.dims[2]);
    const i64 windows = p_.dims[1].windows * p_.dims[2].windows;
    const bool together = heights.count() * widths.count() == windows &&
                          Base::has_rows_together(p_.in_at, p_.dims[2].windows) &&
                          Base::has_rows_together(p_.index_at, p_.dims[2].windows);
    for (i64 d = depths.first; d < depths.end; ++d) {
      if (together) {
        add_windows(image, channel, d, 0, 0, windows);
        continue;
      }
      for (i64 h = heights.first; h < heights.end; ++h) add_windows(image, channel, d, h, widths.first, widths.count());
    }
    Base::finish(image, channel, 1);
  }

  /// Adds `count` windows from (d, h, w) on; more than a row only if rows follow each other in memory.
  void add_windows(i64 image, i64 channel, i64 d, i64 h, i64 w, i64 count) {
    const WindowDim* const k = p_.dims;
    const WindowStrides& s = p_.in_at;
    const S* const gradient =
        static_cast<const S*>(p_.in) + image * s.image + channel * s.channel + d * s.dims[0] + h * s.dims[1];
    const IndexLine index = index_line(p_, image, channel, d, h);
    const i64 depth = d * k[0].stride - k[0].pad, first = w;
    alignas(64) T value_buffer[kRead];
    alignas(64) Int<T> index_buffer[kRead];
    for (i64 done = 0, n; done < count; done += n) {
      n = min_of(kRead, count - done);
      const T* const values = Base::values_at(gradient + (first + done) * s.dims[2], s.dims[2], n, value_buffer);
      const Int<T>* const indices = Base::indices_at(index, first + done, n, index_buffer);
      for (i64 i = 0, run; i < n; i += run) {
        run = min_of(n - i, k[2].windows - w);
        add_row(depth, h * k[1].stride - k[1].pad, w, values + i, indices + i, run);
        w += run;
        if (w < k[2].windows) continue;
        w = 0;
        ++h;
      }
    }
  }

  /// Adds windows of a row, from number w on, which starts at (depth, top). Columns of those that are inside the image,
  /// and rows if all are, need no check: each of their positions has an element.
  void add_row(i64 depth, i64 top, i64 w, const T* values, const Int<T>* indices, i64 n) {
    if (p_.image_index) {
      for (i64 i = 0; i < n; ++i)
        if (is_below(indices[i], elements_)) sums_[indices[i]] += values[i];
      return;
    }
    const WindowDim& width = p_.dims[2];
    const i64 left = w * width.stride - width.pad, start = in_plane(depth, top, left);
    const i64 first = is_inside(p_.dims[0], depth) ? min_of(max_of<i64>(inside_.first - w, 0), n) : n;
    const i64 last = max_of(first, min_of(n, inside_.end - w));
    for (i64 i = 0; i < first; ++i) add_at_border(top, left, start, i, indices[i], values[i]);
    T* const row = sums_ + start;
    const auto add = [&](const auto& exists) {
      for (i64 i = first; i < last; ++i)
        if (exists(indices[i])) row[i * width.stride + places_[indices[i]].offset] += values[i];
    };
    if (is_inside(p_.dims[1], top))
      add([&](i64 index) { return is_below(index, positions_); });
    else
      add([&](i64 index) { return is_below(index, positions_) && is_below(top + places_[index].h, p_.dims[1].size); });
    for (i64 i = last; i < n; ++i) add_at_border(top, left, start, i, indices[i], values[i]);
  }
  static bool is_inside(const WindowDim& dim, i64 start) { return start >= 0 && start + dim.length <= dim.size; }

  /// Positions in the padding have no element.
  void add_at_border(i64 top, i64 left, i64 start, i64 window, i64 index, T value) {
    if (!is_below(index, positions_)) return;
    const Place& place = places_[index];
    const i64 moved = window * p_.dims[2].stride, at = start + moved + place.offset;
    if (is_below(top + place.h, p_.dims[1].size) && is_below(left + moved + place.w, p_.dims[2].size) &&
        is_below(at, elements_))
      sums_[at] += value;
  }

  const Range inside_;  // the windows of a row without padding
  Place* const places_;
};

/// Calls body(scatter) with the class for windows of this kind.
template <class S, class Body>
void with_scatter(const Pooling& p, Scratch& scratch, const Body& body) {
  if constexpr (!__is_same(S, double)) {
    if (FlatScatter<S>::is_applicable(p)) {
      FlatScatter<S> flat(p, scratch);
      return body(flat);
    }
  }
  PoolingScatter<S> rows(p, scratch);
  body(rows);
}

/// Planes [first, end) of images and channels.
template <class S>
void pooling_scatter(const Pooling& p, i64 first, i64 end, void* memory) {
  Scratch scratch(memory);
  with_scatter<S>(p, scratch, [&](auto& scatter) {
    scatter.prepare();
    scatter.planes(first, end);
  });
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
