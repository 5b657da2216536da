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
        sums_(scratch.take<T>(elements_)),
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
    for (i64 i = 0; i < elements_; ++i) sums_[i] = 0;
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
    write(image, channel);
  }

 private:
  static constexpr i64 kStep = kLanes<T>;

  /// A position in a window: its element relative to that at the window's start, and its row and column.
  struct Place {
    i64 offset, h, w;
  };

  static bool is_below(i64 v, i64 end) { return static_cast<std::uint64_t>(v) < static_cast<std::uint64_t>(end); }
  i64 in_plane(i64 d, i64 h, i64 w) const { return (d * p_.dims[1].size + h) * p_.dims[2].size + w; }

  static bool has_rows_together(const WindowStrides& s, i64 width) { return s.dims[2] == 1 && s.dims[1] == width; }

  /// Adds `count` windows from (d, h, w) on; more than a row only if rows follow each other in memory.
  void add_windows(i64 image, i64 channel, i64 d, i64 h, i64 w, i64 count) {
    const WindowDim* const k = p_.dims;
    const WindowStrides& s = p_.in_at;
    const S* const gradient =
        static_cast<const S*>(p_.in) + image * s.image + channel * s.channel + d * s.dims[0] + h * s.dims[1];
    const IndexLine index = index_line(p_, image, channel, d, h);
    const i64 depth = d * k[0].stride - k[0].pad, first = w;
    i64 top = h * k[1].stride - k[1].pad, left = w * k[2].stride - k[2].pad, start = in_plane(depth, top, left);
    for (i64 done = 0; done < count; done += kStep) {
      const i64 n = min_of(kStep, count - done);
      alignas(64) T values[kStep];
      alignas(64) Int<T> indices[kStep];
      store(values, load_elements<S, T>(gradient + (first + done) * s.dims[2], s.dims[2], n));
      const Ints<T> numbers = load_indices<T>(index.bytes, index.at(first + done), index.window_step, n);
      __builtin_memcpy(indices, &numbers, sizeof numbers);
      for (i64 i = 0; i < n; ++i) {
        i64 at = indices[i];
        if (!p_.image_index) {
          const i64 row = top, column = left, origin = start;
          left += k[2].stride;
          start += k[2].stride;
          if (++w == k[2].windows) {
            w = 0;
            top += k[1].stride;
            left = -k[2].pad;
            start = in_plane(depth, top, left);
          }
          if (!is_below(at, positions_)) continue;
          const Place& place = places_[at];
          // Positions in the padding have no element.
          if (!is_below(row + place.h, k[1].size) || !is_below(column + place.w, k[2].size)) continue;
          at = origin + place.offset;
        }
        if (is_below(at, elements_)) sums_[at] += values[i];
      }
    }
  }

  void write(i64 image, i64 channel) {
    const WindowStrides& s = p_.out_at;
    const i64 width = p_.dims[2].size;
    const bool one_depth = p_.dims[0].size == 1,
               together = has_rows_together(s, width) && (one_depth || s.dims[0] == width * p_.dims[1].size);
    const i64 rows = together ? 1 : p_.dims[0].size * p_.dims[1].size, row = together ? elements_ : width;
    const T* from = sums_;
    for (i64 r = 0; r < rows; ++r) {
      S* const to = static_cast<S*>(p_.out) + image * s.image + channel * s.channel + r / p_.dims[1].size * s.dims[0] +
                    r % p_.dims[1].size * s.dims[1];
      for (i64 i = 0, n; i < row; i += n, from += n) {
        n = min_of(row - i, kWriterElements);
        __builtin_memcpy(writer_.reserve(to + i * s.dims[2], n), from, static_cast<std::size_t>(n) * sizeof(T));
      }
    }
  }

  const Pooling& p_;
  const i64 elements_, positions_;
  T* const sums_;
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
