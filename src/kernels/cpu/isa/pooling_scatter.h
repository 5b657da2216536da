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
    const Range depths = windows_inside(p_.dims[0]), heights = windows_inside(p_.dims[1]);
    for (i64 d = depths.first; d < depths.end; ++d)
      for (i64 h = heights.first; h < heights.end; ++h) line(image, channel, d, h);
    const WindowStrides& s = p_.out_at;
    const i64 width = p_.dims[2].size;
    const T* from = sums_;
    for (i64 d = 0; d < p_.dims[0].size; ++d)
      for (i64 h = 0; h < p_.dims[1].size; ++h) {
        S* const to = static_cast<S*>(p_.out) + image * s.image + channel * s.channel + d * s.dims[0] + h * s.dims[1];
        for (i64 w = 0, n; w < width; w += n, from += n) {
          n = min_of(width - w, kWriterElements);
          __builtin_memcpy(writer_.reserve(to + w * s.dims[2], n), from, static_cast<std::size_t>(n) * sizeof(T));
        }
      }
  }

 private:
  static constexpr i64 kStep = kLanes<T>;

  /// A position in a window: its element relative to that at the window's start, and its row and column.
  struct Place {
    i64 offset, h, w;
  };

  static bool is_below(i64 v, i64 end) { return static_cast<std::uint64_t>(v) < static_cast<std::uint64_t>(end); }
  i64 in_plane(i64 d, i64 h, i64 w) const { return (d * p_.dims[1].size + h) * p_.dims[2].size + w; }

  /// Adds a line of windows.
  void line(i64 image, i64 channel, i64 d, i64 h) {
    const WindowDim* const k = p_.dims;
    const WindowStrides& s = p_.in_at;
    const S* const gradient =
        static_cast<const S*>(p_.in) + image * s.image + channel * s.channel + d * s.dims[0] + h * s.dims[1];
    const IndexLine index = index_line(p_, image, channel, d, h);
    const i64 top = h * k[1].stride - k[1].pad, start = in_plane(d * k[0].stride - k[0].pad, top, -k[2].pad);
    const Range widths = windows_inside(k[2]);
    for (i64 w = widths.first; w < widths.end; w += kStep) {
      const i64 n = min_of(kStep, widths.end - w);
      alignas(64) T values[kStep];
      alignas(64) Int<T> indices[kStep];
      store(values, load_elements<S, T>(gradient + w * s.dims[2], s.dims[2], n));
      const Ints<T> numbers = load_indices<T>(index.bytes, index.at(w), index.window_step, n);
      __builtin_memcpy(indices, &numbers, sizeof numbers);
      for (i64 i = 0; i < n; ++i) {
        i64 at = indices[i];
        if (!p_.image_index) {
          if (!is_below(at, positions_)) continue;
          const Place& place = places_[at];
          const i64 left = (w + i) * k[2].stride;
          // Positions in the padding have no element.
          if (!is_below(top + place.h, k[1].size) || !is_below(left - k[2].pad + place.w, k[2].size)) continue;
          at = start + left + place.offset;
        }
        if (is_below(at, elements_)) sums_[at] += values[i];
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
