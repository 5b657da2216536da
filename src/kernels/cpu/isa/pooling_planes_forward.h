// Pooling forward of transposed planes (pooling_planes.h).
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/pooling_planes.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

template <template <class> class F, class S, bool kNumbers>
class PlanesForward : PooledPlanes<S> {
  using Base = PooledPlanes<S>;
  using Base::kVectors;
  using typename Base::T;

 public:
  PlanesForward(const Pooling& p, Scratch& scratch) : PlanesForward(p, scratch, shape_of(p)) {}

  void line(i64 number) {
    const PlaneGroup group(p_, number);
    const PlanePointers in = Base::elements_of_planes(group);
    const WindowDim(&k)[3] = p_.dims;
    each_band(shape_, k[0].windows, k[1].windows, [&](const Band& band) {
      const Band lines = Base::covered(k, band);
      Base::template transpose_lines<LoadElements<S, T>>(in, lines, p_.in_at, k[2].size, elements_);
      reduce(band, lines);
      const i64 n = band.lines() * k[2].windows;
      const i64 start = (band.depths.first * k[1].windows + band.heights.first) * k[2].windows;
      Base::write(group, values_, n, start);
      if constexpr (kNumbers) write_indices(group, n, start);
    });
  }

 private:
  using Base::elements_;
  using Base::numbers_;
  using Base::p_;
  using Base::values_;

  static BandShape shape_of(const Pooling& p) {
    const WindowDim(&k)[3] = p.dims;
    if (k[0].size * k[1].size * k[2].size <= kBandElements) return {k[0].windows, k[1].windows};
    const i64 lines = kBandElements / (Base::covered(k[0], 1) * k[2].size);
    return {1, min_of(max_of<i64>((lines - k[1].length) / k[1].stride + 1, 1), k[1].windows)};
  }
  PlanesForward(const Pooling& p, Scratch& scratch, const BandShape& shape)
      : Base(p, scratch,
             Base::covered(p.dims[0], shape.depths) * Base::covered(p.dims[1], shape.heights) * p.dims[2].size,
             shape.depths * shape.heights * p.dims[2].windows, shape.depths * shape.heights * p.dims[2].windows,
             kNumbers),
        shape_(shape),
        columns_(scratch.take<T>(kPlanes * p.dims[2].size)),
        column_numbers_(kNumbers ? scratch.take<Int<T>>(kPlanes * p.dims[2].size) : nullptr),
        number_rows_(kNumbers ? scratch.take<Int<T>>(kPlanes * shape.depths * shape.heights * p.dims[2].windows)
                              : nullptr) {}

  /// Lines of windows: columns first, then windows of columns.
  void reduce(const Band& band, const Band& lines) {
    const Numbering numbering(p_, p_.image_index);
    const WindowDim(&k)[3] = p_.dims;
    i64 place = 0;
    for (i64 od = band.depths.first; od < band.depths.end; ++od)
      for (i64 oh = band.heights.first; oh < band.heights.end; ++oh, place += k[2].windows * kPlanes) {
        const Range outer[2] = {elements_of(k[0], od), elements_of(k[1], oh)};
        const i64 rows = outer[0].count() * outer[1].count();
        const i64 start =
            numbering.of(0, outer[0].first, od) * numbering.sizes[1] + numbering.of(1, outer[1].first, oh);
        for (i64 i = 0; rows > 0 && i < k[2].size * kPlanes; i += kBlock * kLanes<T>)
          reduce_columns(outer, lines, numbering, i, min_of(kBlock, k[2].size * kVectors - i / kLanes<T>));
        for (i64 ow = 0; ow < k[2].windows; ++ow)
          reduce_window(rows, elements_of(k[2], ow), start * numbering.sizes[2] + numbering.of(2, 0, ow),
                        place + ow * kPlanes);
      }
  }

  /// Vectors of the columns from i on; numbers count from the first element of each.
  void reduce_columns(const Range (&outer)[2], const Band& lines, const Numbering& numbering, i64 i, i64 vectors) {
    Vec<T> acc[kBlock];
    Ints<T> at[kBlock] = {};
    for (auto& v : acc) v = f_.start();
    const i64 pitch = p_.dims[2].size * kPlanes;
    for (i64 d = outer[0].first; d < outer[0].end; ++d)
      for (i64 h = outer[1].first; h < outer[1].end; ++h) {
        const T* const x =
            elements_ + ((d - lines.depths.first) * lines.heights.count() + h - lines.heights.first) * pitch + i;
        const i64 number = ((d - outer[0].first) * numbering.sizes[1] + h - outer[1].first) * numbering.sizes[2];
#pragma GCC unroll 4
        for (i64 v = 0; v < kBlock; ++v)
          take<kNumbers, T>(f_, acc[v], at[v], load(x + v * kLanes<T>), static_cast<Int<T>>(number));
      }
    for (i64 v = 0; v < vectors; ++v) {
      store(columns_ + i + v * kLanes<T>, acc[v]);
      if constexpr (kNumbers) store(column_numbers_ + i + v * kLanes<T>, at[v]);
    }
  }

  /// The window of some columns, each of `rows` elements; the numbers of column w count from `first` + w.
  void reduce_window(i64 rows, Range columns, i64 first, i64 place) {
    Vec<T> acc[kVectors];
    Ints<T> at[kVectors] = {};
    const i64 count = rows * columns.count();
    for (auto& v : acc) v = count > 0 ? f_.start() : broadcast<T>(p_.maximum ? least<S, T>() : 0);
    if (count > 0)  // the index if no element is above -infinity
      for (auto& v : at) v = v + static_cast<Int<T>>(first + columns.first);
    for (i64 w = columns.first; w < (count > 0 ? columns.end : columns.first); ++w)
#pragma GCC unroll 4
      for (i64 v = 0; v < kVectors; ++v) {
        const i64 i = w * kPlanes + v * kLanes<T>;
        const Vec<T> x = load(columns_ + i);
        if constexpr (kNumbers)
          take_first<T>(acc[v], at[v], x, load(column_numbers_ + i) + static_cast<Int<T>>(first + w));
        else
          acc[v] = f_.add(acc[v], x);
      }
    if (count > 0) {
      const i64 elements = p_.inclusive ? p_.dims[0].length * p_.dims[1].length * p_.dims[2].length : count;
      for (auto& v : acc) v = f_.finish(v, broadcast(static_cast<T>(elements)));
    }
#pragma GCC unroll 4
    for (i64 v = 0; v < kVectors; ++v) {
      store(values_ + place + v * kLanes<T>, acc[v]);
      if constexpr (kNumbers) store(numbers_ + place + v * kLanes<T>, at[v]);
    }
  }

  void write_indices(const PlaneGroup& group, i64 n, i64 start) {
    lanes_to_planes(numbers_, n, number_rows_);
    auto* const index = static_cast<unsigned char*>(p_.index);
    for (i64 i = 0; i < group.n; ++i)
      store_indices<T>(p_.index_bytes, index + (group.offset(p_.index_at, i) + start) * p_.index_bytes, 1,
                       number_rows_ + i * n, n, 0, 0);
  }

  static constexpr i64 kBlock = 4;  // vectors of columns that are reduced together

  const F<T> f_{};
  const BandShape shape_;
  T* const columns_;
  Int<T>*const column_numbers_, *const number_rows_;
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
