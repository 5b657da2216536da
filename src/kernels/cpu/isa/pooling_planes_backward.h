// The gradient of pooling for transposed planes (pooling_planes.h): gradients of windows are added, windows in order.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/pooling_planes.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Of means, and of maxima with indices.
template <class S, bool kMaximum>
class PlanesBackward : PooledPlanes<S> {
  using Base = PooledPlanes<S>;
  using Base::kVectors;
  using typename Base::T;

 public:
  PlanesBackward(const Pooling& p, Scratch& scratch) : PlanesBackward(p, scratch, shape_of(p)) {}

  void line(i64 number) {
    const PlaneGroup group(p_, number);
    const PlanePointers in = Base::elements_of_planes(group);
    const WindowDim(&k)[3] = p_.dims;
    each_band(shape_, k[0].size, k[1].size, [&](const Band& band) {
      const Band windows{covering(k[0], band.depths), covering(k[1], band.heights)};
      Base::template transpose_lines<LoadElements<S, T>>(in, windows, p_.in_at, k[2].windows, values_);
      if constexpr (kMaximum) transpose_indices(group, windows);
      const i64 n = band.lines() * k[2].size;
      __builtin_memset(elements_, 0, static_cast<std::size_t>(n * kPlanes) * sizeof(T));
      add(band, windows);
      Base::write(group, elements_, n, (band.depths.first * k[1].size + band.heights.first) * k[2].size);
    });
  }

 private:
  using Base::elements_;
  using Base::numbers_;
  using Base::p_;
  using Base::values_;

  static Range covering(const WindowDim& k, Range elements) {
    const i64 first = windows_of(k, elements.first).first;
    return {first, max_of(windows_of(k, elements.end - 1).end, first)};
  }
  /// At most so many windows cover so many elements.
  static i64 covering(const WindowDim& k, i64 elements) {
    return min_of(k.windows, (elements + k.length - 2) / k.stride + 1);
  }
  static BandShape shape_of(const Pooling& p) {
    const WindowDim(&k)[3] = p.dims;
    if (k[0].size * k[1].size * k[2].size <= kBandElements) return {k[0].size, k[1].size};
    return {1, min_of(max_of<i64>(kBandElements / k[2].size, 1), k[1].size)};
  }
  PlanesBackward(const Pooling& p, Scratch& scratch, const BandShape& shape)
      : Base(p, scratch, shape.depths * shape.heights * p.dims[2].size,
             covering(p.dims[0], shape.depths) * covering(p.dims[1], shape.heights) * p.dims[2].windows,
             shape.depths * shape.heights * p.dims[2].size, kMaximum),
        shape_(shape) {}

  void transpose_indices(const PlaneGroup& group, const Band& windows) {
    const PlanePointers indices(group, p_.index, p_.index_at, p_.index_bytes);
    const auto transpose = [&]<class U>(U) {
      Base::template transpose_lines<LoadIndices<U, T>>(indices, windows, p_.index_at, p_.dims[2].windows, numbers_);
    };
    switch (p_.index_bytes) {
      case 1: return transpose(std::uint8_t{});
      case 2: return transpose(std::uint16_t{});
      case 4: return transpose(std::uint32_t{});
      default: return transpose(std::uint64_t{});
    }
  }

  static Range common(Range a, Range b) { return {max_of(a.first, b.first), min_of(a.end, b.end)}; }

  /// Adds the gradients of windows to the elements of a band, windows in order.
  void add(const Band& band, const Band& windows) {
    const Numbering numbering(p_, p_.image_index);
    const WindowDim(&k)[3] = p_.dims;
    const T* gradient = values_;
    [[maybe_unused]] const Int<T>* index = numbers_;
    for (i64 od = windows.depths.first; od < windows.depths.end; ++od)
      for (i64 oh = windows.heights.first; oh < windows.heights.end; ++oh)
        for (i64 ow = 0; ow < k[2].windows; ++ow, gradient += kPlanes) {
          const Range depths = elements_of(k[0], od), heights = elements_of(k[1], oh), widths = elements_of(k[2], ow);
          const Range lines[2] = {common(depths, band.depths), common(heights, band.heights)};
          Vec<T> g[kVectors];
          Ints<T> at[kVectors] = {};
#pragma GCC unroll 4
          for (i64 v = 0; v < kVectors; ++v) {
            g[v] = load(gradient + v * kLanes<T>);
            if constexpr (kMaximum) {
              at[v] = load(index + v * kLanes<T>);
            } else {
              const i64 count = p_.inclusive ? k[0].length * k[1].length * k[2].length
                                             : depths.count() * heights.count() * widths.count();
              g[v] = g[v] / static_cast<T>(count);
            }
          }
          if constexpr (kMaximum) index += kPlanes;
          for (i64 d = lines[0].first; d < lines[0].end; ++d)
            for (i64 h = lines[1].first; h < lines[1].end; ++h) {
              const i64 line = (d - band.depths.first) * band.heights.count() + h - band.heights.first;
              T* sum = elements_ + (line * k[2].size + widths.first) * kPlanes;
              i64 number = numbering.of(d, od, h, oh, widths.first, ow);
              for (i64 w = widths.first; w < widths.end; ++w, sum += kPlanes, ++number) {
#pragma GCC unroll 4
                for (i64 v = 0; v < kVectors; ++v) {
                  Vec<T> more = g[v];
                  if constexpr (kMaximum) more = at[v] == Ints<T>{} + static_cast<Int<T>>(number) ? more : Vec<T>{};
                  store(sum + v * kLanes<T>, load(sum + v * kLanes<T>) + more);
                }
              }
            }
        }
  }

  const BandShape shape_;
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
