// The row skeleton: reduces contiguous runs of a row, then computes outputs from the values and the row in a second
// pass (softmax, norms). The functor is described in reduction.h. Lanes, runs and parts of a row are merged in a fixed
// order, so that results do not depend on threads.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/skeletons/accumulators.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

template <template <class> class F, class T, class Inputs, class Outputs>
struct Row;

template <template <class> class F, class T, class... I, class... O>
struct Row<F, T, Types<I...>, Types<O...>> {
  static constexpr int kCount = F<T>::kAccumulators, kReads = F<T>::kReads, kUnroll = 4;
  static constexpr i64 kStep = kLanes<T>;
  using Lanes = Accumulators<F, T>;

  static void start(const void* job, double* values) {
    const Accumulators<F, double> none(functor<F, double>(job));
    for (int k = 0; k < kCount; ++k) values[k] = none.v[k][0];
  }

  static void merge(const void* job, i64 n, const double* later, double* values, i64 pitch) {
    const F<double> f = functor<F, double>(job);
    for (i64 i = 0; i < n; i += kLanes<double>)
      merge_values<F>(f, later + i, pitch, values + i, pitch, static_cast<int>(min_of<i64>(kLanes<double>, n - i)));
  }

  static void reduce(const void* job, const Run& run, i64 first, double* values) {
    const F<T> f = functor<F, T>(job);
    const F<double> wide = functor<F, double>(job);
    const i64 rows_at_once = max_of<i64>(kMostElements / max_of<i64>(run.n, 1), 1);
    for (i64 r = 0; r < run.rows; r += rows_at_once) {
      const i64 rows = min_of(run.rows - r, rows_at_once);
      for (i64 i = 0; i < run.n; i += kMostElements) {
        const Lanes lanes = reduce_block(f, run, {r, rows, i, min_of(run.n - i, kMostElements)});
        double block[kCount];
        for (int k = 0; k < kCount; ++k) block[k] = lanes.v[k][0];
        if constexpr (F<T>::kIndex >= 0) block[F<T>::kIndex] += static_cast<double>(first + r * run.n + i);
        merge_values<F>(wide, block, 1, values, 1, 1);
      }
    }
  }

  static void reduce_each(const void* job, const Run& run, double* values, i64 pitch) {
    const F<T> f = functor<F, T>(job);
    for (i64 r = 0; r < run.rows; ++r) {
      const Lanes lanes = reduce_block(f, run, {r, 1, 0, run.n});
      for (int k = 0; k < kCount; ++k) values[k * pitch + r] = lanes.v[k][0];
    }
  }

  static void apply(const void* job, const Run& run, const double* values) {
    Applied applied{functor<F, T>(job), {}};
    for (int k = 0; k < kCount; ++k) applied.values[k] = broadcast(static_cast<T>(values[k]));
    map_applied<T, Types<I...>, Types<O...>>(applied.f, applied, run);
    finish_applied(applied.f);
  }

 private:
  struct Applied {
    template <class... X>
    [[gnu::always_inline]] auto operator()(X... x) const {
      return f.apply(values, x...);
    }
    F<T> f;
    Vec<T> values[kCount];
  };

  using Inputs = RowInputs<T, I...>;
  static constexpr auto kNumbers = std::make_index_sequence<static_cast<std::size_t>(kReads)>{};

  /// Elements [from, from + n) of some rows; all of their elements if there are several.
  struct Block {
    i64 row, rows, from, n;
  };

  /// Merged into lane 0.
  static Lanes reduce_block(const F<T>& f, const Run& run, const Block& b) {
    Lanes lanes[kUnroll] = {Lanes(f), Lanes(f), Lanes(f), Lanes(f)};
    alignas(64) typename Inputs::Buffers repeated;
    for (i64 r = 0; r < b.rows; ++r) {
      const Inputs in(run, b.row + r, repeated);
      const i64 before = r * b.n - b.from;  // number of the row's first element in the block
      i64 j = b.from;
      const i64 end = b.from + b.n;
      for (; j + kUnroll * kStep <= end; j += kUnroll * kStep) {
#pragma GCC unroll 4
        for (int u = 0; u < kUnroll; ++u) add(f, lanes[u], in, before, j + u * kStep, kNumbers);
      }
      for (; j + kStep <= end; j += kStep) add(f, lanes[0], in, before, j, kNumbers);
      if (j < end) add_part(f, lanes[0], in, before, j, static_cast<int>(end - j), kNumbers);
    }
    f.merge(lanes[0].v, lanes[1].v);
    f.merge(lanes[2].v, lanes[3].v);
    f.merge(lanes[0].v, lanes[2].v);
    merge_lanes<kLanes<T> / 2>(f, lanes[0]);
    return lanes[0];
  }

  static Vec<T> indices(i64 j) { return __builtin_convertvector(Lanes::lane_numbers(), Vec<T>) + static_cast<T>(j); }

  template <std::size_t... K>
  [[gnu::always_inline]] static void add(const F<T>& f, Lanes& lanes, const Inputs& in, i64 before, i64 j,
                                         std::index_sequence<K...>) {
    f.add(lanes.v, indices(before + j), in.template load<K>(j)...);
  }

  template <std::size_t... K>
  static void add_part(const F<T>& f, Lanes& lanes, const Inputs& in, i64 before, i64 j, int n,
                       std::index_sequence<K...>) {
    lanes.add_lanes(f, n, indices(before + j), in.template load_part<K>(j, n)...);
  }

  /// Merges lanes [kHalf, 2 kHalf) into lanes [0, kHalf), and so on, down to lane 0.
  template <int kHalf>
  [[gnu::always_inline]] static void merge_lanes(const F<T>& f, Lanes& lanes) {
    if constexpr (kHalf > 0) {
      Lanes upper = lanes;
      for (int k = 0; k < kCount; ++k)
        upper.v[k] = moved_down<kHalf>(lanes.v[k], std::make_index_sequence<static_cast<std::size_t>(kStep)>{});
      f.merge(lanes.v, upper.v);
      merge_lanes<kHalf / 2>(f, lanes);
    }
  }
  template <int kBy, std::size_t... L>
  static Vec<T> moved_down(Vec<T> v, std::index_sequence<L...>) {
    return __builtin_shufflevector(v, v, static_cast<int>((L + kBy) % kStep)...);
  }
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
