// Accumulators of a reduction (reduction.h) in lanes of T, and how they are merged in double.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/skeletons/map.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Elements of a row, or of each column, that are reduced in lanes of T before they are merged in double: sums in float
/// stay accurate, and numbers of elements are exact.
inline constexpr i64 kMostElements = 1024;

template <template <class> class F, class T>
F<T> functor(const void* job) {
  using Job = typename F<T>::Job;
  if constexpr (__is_same(Job, void))
    return F<T>();
  else
    return F<T>(*static_cast<const Job*>(job));
}

/// Of the inputs that are reduced, the last so many are one number for each row of columns.
template <class F>
constexpr int row_scalars() {
  if constexpr (requires { F::kRowScalars; })
    return F::kRowScalars;
  else
    return 0;
}

/// Elements of a column that a lane reduces before they are merged in double.
template <class F>
constexpr i64 elements_per_lane() {
  if constexpr (requires { F::kElementsPerLane; })
    return F::kElementsPerLane;
  else
    return kMostElements;
}

/// The element that sums of a block are relative to; functors without kPivot have none.
enum class Pivot { kNone, kFirst, kLargest };
template <class F>
constexpr Pivot pivot_of() {
  if constexpr (requires { F::kPivot; })
    return F::kPivot;
  else
    return Pivot::kNone;
}

/// The functor of the second pass over terms, where there are none.
template <class T>
struct NoTerms {};

template <template <class> class F, class T>
struct Accumulators {
  static constexpr int kCount = F<T>::kAccumulators;
  Vec<T> v[kCount];

  explicit Accumulators(const F<T>& f) { f.start(v); }
};

/// What lanes of T hold while they add up a block: accumulators, or a pivot and sums.
template <template <class> class F, class T, Pivot kPivot>
struct BlockLanes {
  static constexpr int kFirst = 0, kCount = F<T>::kAccumulators;  // [kFirst, kCount) change
  Vec<T> v[kCount];

  explicit BlockLanes(const F<T>& f) { f.start(v); }
  template <class... X>
  [[gnu::always_inline]] void add(const F<T>& f, Vec<T> index, X... x) {
    f.add(v, index, x...);
  }
  void merge(const F<T>& f, const BlockLanes& later) { f.merge(v, later.v); }
};
template <template <class> class F, class T, Pivot kPivot>
requires(kPivot != Pivot::kNone) struct BlockLanes<F, T, kPivot> {
  static constexpr int kFirst = 1, kCount = 1 + F<T>::kSums;
  Vec<T> v[kCount] = {};

  explicit BlockLanes(const F<T>&) {}
  template <class... X>
  [[gnu::always_inline]] auto add(const F<T>& f, Vec<T>, X... x) {
    return f.add_to_sums(v, x...);
  }
  void merge(const F<T>&, const BlockLanes& later) {
    for (int k = kFirst; k < kCount; ++k) v[k] = v[k] + later.v[k];
  }
};

template <int kBy, class V, std::size_t... L>
[[gnu::always_inline]] inline V moved_down(V v, std::index_sequence<L...>) {
  return __builtin_shufflevector(v, v, static_cast<int>((L + kBy) % sizeof...(L))...);
}
/// Merges lanes [kHalf, 2 kHalf) into lanes [0, kHalf), and so on, down to lane 0.
template <int kHalf, class T, int kCount, class Merge>
[[gnu::always_inline]] inline void merge_lanes(Vec<T> (&v)[kCount], const Merge& merge) {
  if constexpr (kHalf > 0) {
    Vec<T> upper[kCount];
    for (int k = 0; k < kCount; ++k)
      upper[k] = moved_down<kHalf>(v[k], std::make_index_sequence<static_cast<std::size_t>(kLanes<T>)>{});
    merge(v, upper);
    merge_lanes<kHalf / 2, T>(v, merge);
  }
}

/// Merges later values into n that are `pitch` apart.
template <template <class> class F>
[[gnu::always_inline]] inline void merge_values(const F<double>& f, const Accumulators<F, double>& later,
                                                double* values, i64 pitch, int n) {
  Accumulators<F, double> sum(f);
  const bool whole = n == kLanes<double>;
  for (int k = 0; k < sum.kCount; ++k)
    sum.v[k] = whole ? load(values + k * pitch) : load_lanes(values + k * pitch, 0, n);
  f.merge(sum.v, later.v);
  for (int k = 0; k < sum.kCount; ++k)
    whole ? store(values + k * pitch, sum.v[k]) : store_lanes(values + k * pitch, sum.v[k], n);
}
/// The same of later values that are `later_pitch` apart.
template <template <class> class F>
void merge_values(const F<double>& f, const double* later, i64 later_pitch, double* values, i64 pitch, int n) {
  Accumulators<F, double> other(f);
  for (int k = 0; k < other.kCount; ++k) other.v[k] = load_lanes(later + k * later_pitch, 0, n);
  merge_values<F>(f, other, values, pitch, n);
}

/// A second pass by `applied`, which holds the functor; how results are stored is what its stores() returns, if there
/// is one. The caller calls finish_applied() at the end.
template <class T, class Inputs, class Outputs, class Applied>
void map_applied(const Applied& applied, const Run& run) {
  if constexpr (requires { applied.f.stores(); })
    map_unfinished<T, Inputs, Outputs>(applied, run, applied.f.stores());
  else
    map<T, Inputs, Outputs>(applied, run);
}
template <class F>
void finish_applied(const F& f) {
  if constexpr (requires { f.stores(); })
    if (f.stores().non_temporal) finish_non_temporal_stores();
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
