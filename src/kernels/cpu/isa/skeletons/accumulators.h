// Accumulators of a reduction (reduction.h) in lanes of T, and how they are merged in double.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/skeletons/map.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Elements of a row, or of each column, that are reduced in lanes of T before they are merged in double: sums in float
/// stay accurate, and numbers of elements are exact.
inline constexpr i64 kMostElements = kMostRowElements;

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

template <template <class> class F, class T>
struct Accumulators {
  static constexpr int kCount = F<T>::kAccumulators;
  Vec<T> v[kCount];

  explicit Accumulators(const F<T>& f) { f.start(v); }

  /// Adds the first n lanes only.
  template <class... X>
  void add_lanes(const F<T>& f, int n, Vec<T> index, X... x) {
    const Accumulators old = *this;
    f.add(v, index, x...);
    const auto used = lane_numbers() < static_cast<typename Float<T>::Int>(n);
    for (int k = 0; k < kCount; ++k) v[k] = used ? v[k] : old.v[k];
  }

  static Ints<T> lane_numbers() {
    Ints<T> lanes{};
    for (int i = 0; i < kLanes<T>; ++i) lanes[i] = i;
    return lanes;
  }
};

/// Merges later values, `later_pitch` apart, into values that are `pitch` apart: `n` at a time.
template <template <class> class F>
void merge_values(const F<double>& f, const double* later, i64 later_pitch, double* values, i64 pitch, int n) {
  Accumulators<F, double> sum(f), other(f);
  for (int k = 0; k < sum.kCount; ++k) {
    sum.v[k] = load_lanes(values + k * pitch, 0, n);
    other.v[k] = load_lanes(later + k * later_pitch, 0, n);
  }
  f.merge(sum.v, other.v);
  for (int k = 0; k < sum.kCount; ++k) store_lanes(values + k * pitch, sum.v[k], n);
}

/// The second pass of a functor over a run: results are blended where it has a blend(). The caller calls
/// finish_applied() at the end.
template <class T, class Inputs, class Outputs, class F, class Applied>
void map_applied(const F& f, const Applied& applied, const Run& run) {
  if constexpr (requires { f.blend(); })
    map_unfinished<T, Inputs, Outputs>(applied, run, f.blend());
  else
    map<T, Inputs, Outputs>(applied, run);
}
template <class F>
void finish_applied(const F& f) {
  if constexpr (requires { f.blend(); })
    if (f.blend().non_temporal) finish_non_temporal_stores();
}

/// The first n elements of inputs from element i on, in full vectors.
template <class... I>
struct PartialInputs {
  PartialInputs(const void* const* from, int inputs, i64 i, int n) {
    constexpr std::size_t kSizes[] = {sizeof(I)...};
    for (int k = 0; k < inputs; ++k) {
      const auto* const start = static_cast<const unsigned char*>(from[k]) + i * static_cast<i64>(kSizes[k]);
      __builtin_memcpy(buffers[k], start, static_cast<std::size_t>(n) * kSizes[k]);
      in[k] = buffers[k];
    }
  }
  alignas(64) unsigned char buffers[sizeof...(I)][kVectorBytes] = {};
  const void* in[sizeof...(I)] = {};
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
