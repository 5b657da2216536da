// Rows that are reduced, then computed: with one call for many rows, and without values in memory. The lanes of several
// rows are merged together, but a row of more than kShortRowBytes is finished before the next one, so that its second
// pass reads the L1 cache. The functor is described in reduction.h; its stores() returns a Blend.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/skeletons/map_row.h"
#include "kernels/cpu/isa/skeletons/row.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

template <template <class> class F, class T, class Inputs, class Outputs>
struct ShortRows;

/// All inputs are reduced.
template <template <class> class F, class T, class... I, class Outputs>
struct ShortRows<F, T, Types<I...>, Outputs> {
  /// As Reduction::finish_short.
  static void finish(const void* job, const Run& run) {
    const F<T> f = functor<F, T>(job);
    bool separate = true;
    for (std::size_t k = 0; k < sizeof...(I); ++k) separate = separate && run.in[k] != run.out[0];
    const RowMap map(run.n, separate);
    if (!f.stores().non_temporal || !map.fills_lines(run)) return finish_rows<false>(f, map, run);
    finish_rows<true>(f, map, run);
    finish_non_temporal_stores();
  }

 private:
  using R = Row<F, T, Types<I...>>;
  using RowMap = MapRow<T, Types<I...>, Outputs>;
  static constexpr int kCount = R::kCount;
  static constexpr i64 kStep = kLanes<T>;
  static constexpr auto kNumbers = std::make_index_sequence<sizeof...(I)>{};
  static_assert(R::kReads == sizeof...(I) && R::kPivot == Pivot::kNone && F<T>::kIndex == -1);

  template <bool kNonTemporal>
  static void finish_rows(const F<T>& f, const RowMap& map, const Run& run) {
    const T scale = static_cast<T>(f.stores().scale);
    const auto compute = [&](i64 row, const Vec<T>(&of_row)[kCount]) {
      map.template compute<kNonTemporal>([&](auto... x) { return f.apply(of_row, x...) * scale; },
                                         DistinctInputs<T, I...>(run, row),
                                         static_cast<unsigned char*>(run.out[0]) + row * run.out_row_bytes[0]);
    };
    i64 r = 0;
    constexpr i64 kSizes[] = {sizeof(I)...};
    const bool alone = run.n * kSizes[0] > kShortRowBytes;
    for (; alone && r < run.rows; ++r) {
      const typename R::Lanes sums = reduce(f, run, r, kNumbers);
      Vec<T> of_row[kCount];
      for (int k = 0; k < kCount; ++k) of_row[k] = sums.v[k];
      merge_lanes<kStep / 2, T>(of_row, [&](auto& v, const auto& later) { f.merge(v, later); });
      for (int k = 0; k < kCount; ++k) of_row[k] = broadcast(of_row[k][0]);
      compute(r, of_row);
    }
    for (; r < run.rows; r += kStep) {
      const i64 rows = min_of(run.rows - r, kStep);
      Vec<T> lanes[kCount][kStep];
      for (i64 i = 0; i < kStep; ++i) {
        const typename R::Lanes sums = i < rows ? reduce(f, run, r + i, kNumbers) : typename R::Lanes(f);
        for (int k = 0; k < kCount; ++k) lanes[k][i] = sums.v[k];
      }
      R::template merge_rows<1>(f, lanes);
      for (i64 i = 0; i < rows; ++i) {
        Vec<T> of_row[kCount];
        for (int k = 0; k < kCount; ++k) of_row[k] = broadcast(lanes[k][0][i]);
        compute(r + i, of_row);
      }
    }
  }

  template <std::size_t... K>
  [[gnu::always_inline]] static typename R::Lanes reduce(const F<T>& f, const Run& run, i64 row,
                                                         std::index_sequence<K...>) {
    if (run.prefetches) RowInputs<T, I...>::prefetch(run, row + kStep, sizeof...(I));
    const i64 n = run.n;
    if (n > R::kUnroll * kStep) return R::reduce_block(f, run, {row, 1, 0, n}, 0);
    const DistinctInputs<T, I...> in(run, row);
    typename R::Lanes sums(f);
    i64 j = 0;
    for (; j + kStep <= n; j += kStep) sums.add(f, Vec<T>{}, in.template load<K>(j)...);
    if (j == n) return sums;
    const typename R::Lanes old = sums;
    const int rest = static_cast<int>(n - j);
    sums.add(f, Vec<T>{}, in.template load_part<K>(j, rest)...);
    R::restore(sums, old, rest);
    return sums;
  }
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
