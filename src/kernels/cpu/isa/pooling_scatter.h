// The gradient of maximum pooling by scattering: every element of dy is added where its index points, into a plane of
// one channel that stays in the cache. Windows are taken in order, so that sums do not depend on threads.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/pooling_indices.h"
#include "kernels/cpu/isa/skeletons/results.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

template <class S>
class PoolingScatter {
 public:
  using T = Arithmetic<S>;

  PoolingScatter(const Pooling& p, Scratch& scratch)
      : p_(p),
        elements_(p.dims[0].size * p.dims[1].size * p.dims[2].size),
        positions_(p.image_index ? 0 : p.dims[0].length * p.dims[1].length * p.dims[2].length),
        in_place_(adds_in_place()),
        inside_(windows_without_padding(p.dims[2])),
        buffer_(scratch.take<T>(elements_)),
        places_(scratch.take<Place>(positions_)),
        writer_(scratch, {p.scale, p.keep, p.non_temporal}, p.out_at.dims[2]) {}

  /// Fills tables; not done by the constructor, which also measures scratch.
  void prepare() {
    const WindowDim* const k = p_.dims;
    for (i64 i = 0; i < positions_; ++i) {
      const i64 w = i % k[2].length, h = i / k[2].length % k[1].length, d = i / k[2].length / k[1].length;
      places_[i] = {in_plane(d, h, w), h, w};
    }
  }

  void plane(i64 image, i64 channel) {
    sums_ = in_place_ ? reinterpret_cast<T*>(result(image, channel)) : buffer_;
    __builtin_memset(sums_, 0, static_cast<std::size_t>(elements_) * sizeof(T));
    const Range depths = windows_inside(p_.dims[0]), heights = windows_inside(p_.dims[1]),
                widths = windows_inside(p_.dims[2]);
    const i64 windows = p_.dims[1].windows * p_.dims[2].windows;
    const bool together = heights.count() * widths.count() == windows &&
                          has_rows_together(p_.in_at, p_.dims[2].windows) &&
                          has_rows_together(p_.index_at, p_.dims[2].windows);
    for (i64 d = depths.first; d < depths.end; ++d) {
      if (together) {
        add_windows(image, channel, d, 0, 0, windows);
        continue;
      }
      for (i64 h = heights.first; h < heights.end; ++h) add_windows(image, channel, d, h, widths.first, widths.count());
    }
    if (!in_place_) write(image, channel);
  }

 private:
  static constexpr i64 kStep = kLanes<T>, kRead = 256;  // windows that are read at once

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

  static bool has_rows_together(const WindowStrides& s, i64 width) { return s.dims[2] == 1 && s.dims[1] == width; }
  bool is_one_run() const {
    const i64 width = p_.dims[2].size, depth = width * p_.dims[1].size;
    return has_rows_together(p_.out_at, width) && (p_.dims[0].size == 1 || p_.out_at.dims[0] == depth);
  }
  /// Whether planes of dx take the sums themselves.
  bool adds_in_place() const {
    return __is_same(S, T) && is_one_run() && p_.scale == 1 && p_.keep == 0 && !p_.non_temporal;
  }
  S* result(i64 image, i64 channel) const {
    return static_cast<S*>(p_.out) + image * p_.out_at.image + channel * p_.out_at.channel;
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
      const T* const values = values_at(gradient + (first + done) * s.dims[2], s.dims[2], n, value_buffer);
      const Int<T>* const indices = indices_at(index, first + done, n, index_buffer);
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

  /// n elements in memory, or copies of them in the buffer.
  static const T* values_at(const S* from, i64 step, i64 n, T* buffer) {
    if constexpr (__is_same(S, T))
      if (step == 1) return from;
    for (i64 i = 0; i < n; i += kStep)
      store(buffer + i, load_elements<S, T>(from + i * step, step, min_of(kStep, n - i)));
    return buffer;
  }
  static const Int<T>* indices_at(const IndexLine& index, i64 window, i64 n, Int<T>* buffer) {
    const unsigned char* const from = index.at(window);
    if (index.bytes == sizeof(Int<T>) && index.window_step == 1 &&
        reinterpret_cast<std::uintptr_t>(from) % sizeof(Int<T>) == 0)
      return reinterpret_cast<const Int<T>*>(from);
    const auto copy = [&]<class U>(U) {
      for (i64 i = 0; i < n; i += kStep)
        store(buffer + i, load_indices<U, T>(from + i * index.window_step * static_cast<i64>(sizeof(U)),
                                             index.window_step, min_of(kStep, n - i)));
      return buffer;
    };
    switch (index.bytes) {
      case 1: return copy(std::uint8_t{});
      case 2: return copy(std::uint16_t{});
      case 4: return copy(std::uint32_t{});
      default: return copy(std::uint64_t{});
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

  void write(i64 image, i64 channel) {
    const WindowStrides& s = p_.out_at;
    const i64 width = p_.dims[2].size;
    const bool together = is_one_run();
    const i64 rows = together ? 1 : p_.dims[0].size * p_.dims[1].size, row = together ? elements_ : width;
    const T* from = sums_;
    for (i64 r = 0; r < rows; ++r) {
      S* const to = result(image, channel) + r / p_.dims[1].size * s.dims[0] + r % p_.dims[1].size * s.dims[1];
      for (i64 i = 0, n; i < row; i += n, from += n) {
        n = min_of(row - i, kWriterElements);
        __builtin_memcpy(writer_.reserve(to + i * s.dims[2], n), from, static_cast<std::size_t>(n) * sizeof(T));
      }
    }
  }

  const Pooling& p_;
  const i64 elements_, positions_;
  const bool in_place_;
  const Range inside_;  // the windows of a row without padding
  T* const buffer_;
  T* sums_ = nullptr;  // of the plane
  Place* const places_;
  Writer<S, T> writer_;
};

/// Planes [first, end) of images and channels.
template <class S>
void pooling_scatter(const Pooling& p, i64 first, i64 end, void* memory) {
  Scratch scratch(memory);
  PoolingScatter<S> scatter(p, scratch);
  scatter.prepare();
  for (i64 plane = first; plane < end; ++plane) scatter.plane(plane / p.channels, plane % p.channels);
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
