// The row skeleton: reduces contiguous rows; row_pass.h computes outputs from the values and the rows in a second pass.
// The functor is described in reduction.h. Lanes, blocks and parts of a row are merged in a fixed order, so that
// results do not depend on threads.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/skeletons/accumulators.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

template <template <class> class F, class T, class Inputs>
struct Row;

template <template <class> class F, class T, class... I>
struct Row<F, T, Types<I...>> {
  static constexpr int kCount = F<T>::kAccumulators, kReads = F<T>::kReads, kUnroll = 4;
  static constexpr i64 kStep = kLanes<T>;
  static constexpr Pivot kPivot = pivot_of<F<T>>();

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
    double sums[kCount];
    Total total(f, wide);
    for (i64 r = 0; r < run.rows; r += rows_at_once)
      total.add_blocks(run, {r, min_of(run.rows - r, rows_at_once), 0, run.n}, first + r * run.n);
    total.finish(sums, 1);
    merge_values<F>(wide, sums, 1, values, 1, 1);
  }

  static void reduce_each(const void* job, const Run& run, i64 first, double* values, i64 pitch) {
    const F<T> f = functor<F, T>(job);
    const F<double> wide = functor<F, double>(job);
    i64 r = 0;
    if (run.n <= kMostElements)
      for (; r + kStep <= run.rows; r += kStep) reduce_rows(f, wide, run, r, first, values + r, pitch);
    for (; r < run.rows; ++r) {
      Total total(f, wide);
      total.add_blocks(run, {r, 1, 0, run.n}, first);
      total.finish(values + r, pitch);
    }
  }

  using Lanes = BlockLanes<F, T, kPivot>;
  /// Elements [from, from + n) of some rows; all of their elements if there are several.
  struct Block {
    i64 row, rows, from, n;
  };

  /// Sums of the block in each lane.
  [[gnu::noinline]] static Lanes reduce_block(const F<T>& f, const Run& run, const Block& b, T pivot) {
    return reduce_vectors<kUnroll>(f, run, b, pivot);
  }
  /// Leaves row i in lane i of the first vectors.
  template <int kHalf>
  static void merge_rows(const F<T>& f, Vec<T> (&lanes)[Lanes::kCount][kStep]) {
    if constexpr (kHalf < kStep) {
      for (i64 i = 0; i < kStep; i += 2 * kHalf) {
        Lanes sum(f), later(f);
        for (int k = Lanes::kFirst; k < Lanes::kCount; ++k) {
          exchange<kStep, kHalf>(lanes[k][i], lanes[k][i + kHalf],
                                 std::make_index_sequence<static_cast<std::size_t>(kStep)>{});
          sum.v[k] = lanes[k][i];
          later.v[k] = lanes[k][i + kHalf];
        }
        sum.merge(f, later);
        for (int k = Lanes::kFirst; k < Lanes::kCount; ++k) lanes[k][i] = sum.v[k];
      }
      merge_rows<2 * kHalf>(f, lanes);
    }
  }
  /// The lanes after the first n. No object keeps their address: lanes stay in registers.
  [[gnu::always_inline]] static void restore(Lanes& lanes, const Lanes& old, int n) {
    const auto used = lane_numbers<T>() < static_cast<typename Float<T>::Int>(n);
    for (int k = Lanes::kFirst; k < Lanes::kCount; ++k) lanes.v[k] = used ? lanes.v[k] : old.v[k];
  }

 private:
  using Inputs = RowInputs<T, I...>;
  static constexpr auto kNumbers = std::make_index_sequence<static_cast<std::size_t>(kReads)>{};

  /// kStep rows, whose lanes are merged together.
  static void reduce_rows(const F<T>& f, const F<double>& wide, const Run& run, i64 row, i64 first, double* values,
                          i64 pitch) {
    Vec<T> lanes[Lanes::kCount][kStep];
    T pivots[kStep];
    for (i64 i = 0; i < kStep; ++i) {
      const Block block{row + i, 1, 0, run.n};
      if (run.prefetches) Inputs::prefetch(run, row + i + kStep, kReads);  // merging lanes holds up loads
      pivots[i] = pivot_of_block(f, run, block);
      const Lanes sums = run.n <= kUnroll * kStep ? reduce_vectors<1>(f, run, block, pivots[i])
                                                  : reduce_block(f, run, block, pivots[i]);
      for (int k = Lanes::kFirst; k < Lanes::kCount; ++k) lanes[k][i] = sums.v[k];
    }
    merge_rows<1>(f, lanes);
    if constexpr (kPivot != Pivot::kNone) lanes[0][0] = load(pivots);
    for (int p = 0; p < kParts; ++p) {
      Vec<double> part[Lanes::kCount];
      for (int k = 0; k < Lanes::kCount; ++k) {
        part[k] = doubles(lanes[k][0], p);
        if (k == F<T>::kIndex) part[k] = part[k] + static_cast<double>(first);
      }
      double* const to = values + p * kLanes<double>;
      if constexpr (kPivot == Pivot::kNone) {
        for (int k = 0; k < kCount; ++k) store(to + k * pitch, part[k]);
      } else {
        Vec<double> all[kCount];
        wide.values_of(all, broadcast(static_cast<double>(run.n)), part);
        for (int k = 0; k < kCount; ++k) store(to + k * pitch, all[k]);
      }
    }
  }

  static constexpr int kParts = sizeof(double) / sizeof(T);  // vectors of double for one of T
  static Vec<double> doubles(Vec<T> v, int part) {
    typename VecType<T, kLanes<double>>::type some;
    __builtin_memcpy(&some, reinterpret_cast<const unsigned char*>(&v) + part * static_cast<int>(sizeof some),
                     sizeof some);
    return __builtin_convertvector(some, Vec<double>);
  }

  /// Values of blocks, which are merged lane by lane in double; with a pivot those of the first lane alone.
  class Total {
   public:
    Total(const F<T>& f, const F<double>& wide) : f_(f), wide_(wide) {}

    /// Adds elements, the first of which is number `first`, in blocks.
    void add_blocks(const Run& run, const Block& all, i64 first) {
      const T pivot = pivot_of_block(f_, run, all);
      Vec<double> sums[Lanes::kCount] = {};  // of all blocks, relative to the pivot
      for (i64 i = 0; i < all.n; i += kMostElements) {
        const Lanes lanes =
            reduce_block(f_, run, {all.row, all.rows, all.from + i, min_of(all.n - i, kMostElements)}, pivot);
        for (int p = 0; p < kParts; ++p) {
          if constexpr (kPivot == Pivot::kNone) {
            Vec<double> part[kCount];
            for (int k = 0; k < kCount; ++k) {
              part[k] = doubles(lanes.v[k], p);
              if (k == F<T>::kIndex) part[k] = part[k] + static_cast<double>(first + i);
            }
            add(p, part, i == 0);
          } else {
            for (int k = 1; k < Lanes::kCount; ++k) sums[k] = sums[k] + doubles(lanes.v[k], p);
          }
        }
      }
      if constexpr (kPivot != Pivot::kNone) {
        sums[0] = broadcast(static_cast<double>(pivot));
        for (int k = 1; k < Lanes::kCount; ++k) {
          Vec<double> sum[1] = {sums[k]};
          merge_lanes<kLanes<double> / 2, double>(sum, [](auto& v, const auto& later) { v[0] = v[0] + later[0]; });
          sums[k] = sum[0];
        }
        Vec<double> values[kCount];
        wide_.values_of(values, broadcast(static_cast<double>(all.rows * all.n)), sums);
        add(0, values, true);
      }
      empty_ = false;
    }

    /// values[accumulator * pitch]
    void finish(double* values, i64 pitch) {
      if (empty_) {
        const Accumulators<F, double> none(wide_);
        for (int k = 0; k < kCount; ++k) values[k * pitch] = none.v[k][0];
        return;
      }
      if constexpr (kPivot == Pivot::kNone) {
        for (int p = 1; p < kTotals; ++p) wide_.merge(parts_[0], parts_[p]);
        merge_lanes<kLanes<double> / 2, double>(parts_[0], [&](auto& v, const auto& later) { wide_.merge(v, later); });
      }
      for (int k = 0; k < kCount; ++k) values[k * pitch] = parts_[0][k][0];
    }

   private:
    static constexpr int kTotals = kPivot == Pivot::kNone ? kParts : 1;

    /// Merges values of one of the parts; `first`: those of the first block.
    void add(int p, const Vec<double> (&values)[kCount], bool first) {
      if (empty_ && first)
        for (int k = 0; k < kCount; ++k) parts_[p][k] = values[k];
      else
        wide_.merge(parts_[p], values);
    }

    const F<T>& f_;
    const F<double>& wide_;
    Vec<double> parts_[kTotals][kCount] = {};
    bool empty_ = true;
  };

  /// kUsed: 1 if rows have at most kUnroll vectors.
  template <int kUsed>
  [[gnu::always_inline]] static Lanes reduce_vectors(const F<T>& f, const Run& run, const Block& b, T pivot) {
    Lanes lanes[kUnroll] = {Lanes(f), Lanes(f), Lanes(f), Lanes(f)};
    if constexpr (kPivot != Pivot::kNone)
      for (int u = 0; u < kUnroll; ++u) lanes[u].v[0] = broadcast(pivot);
    const bool keeps = run.terms != nullptr;
    T* const terms =
        reinterpret_cast<T*>(static_cast<unsigned char*>(run.terms) + (keeps ? b.row * run.term_row_bytes : 0));
    each_vector<kUsed>(run, b, [&]<bool kWhole>(int u, const Inputs& in, i64 before, i64 j, int n) {
      if constexpr (kPivot == Pivot::kLargest) {
        const Vec<T> term = add<kWhole>(f, lanes[u], in, before, j, n, kNumbers);
        if (keeps) store(terms + j, term);
      } else {
        add<kWhole>(f, lanes[u], in, before, j, n, kNumbers);
      }
    });
    if constexpr (kUsed > 1) {
      lanes[0].merge(f, lanes[1]);
      lanes[2].merge(f, lanes[3]);
      lanes[0].merge(f, lanes[2]);
    }
    return lanes[0];
  }

  /// Calls visit(u, inputs, before, j, n) for the n elements of a row from j on, vector by vector: whole ones, kUsed
  /// after each other with different u, and at most one that is not whole. Element j of the row is element before + j
  /// of the block.
  template <int kUsed, class Visit>
  [[gnu::always_inline]] static void each_vector(const Run& run, const Block& b, const Visit& visit) {
    alignas(64) typename Inputs::template Buffers<> repeated;
    for (i64 r = 0; r < b.rows; ++r) {
      const Inputs in(run, b.row + r, repeated);
      const i64 before = r * b.n - b.from;
      i64 j = b.from;
      const i64 end = b.from + b.n;
      if constexpr (kUsed > 1)
        for (; j + kUsed * kStep <= end; j += kUsed * kStep) {
#pragma GCC unroll 4
          for (int u = 0; u < kUsed; ++u) visit.template operator()<true>(u, in, before, j + u * kStep, kStep);
        }
      for (; j + kStep <= end; j += kStep) visit.template operator()<true>(0, in, before, j, kStep);
      if (j < end) visit.template operator()<false>(0, in, before, j, static_cast<int>(end - j));
    }
  }

  [[gnu::always_inline]] static T pivot_of_block(const F<T>& f, const Run& run, const Block& b) {
    if constexpr (kPivot == Pivot::kNone) {
      return 0;
    } else if constexpr (kPivot == Pivot::kFirst) {
      alignas(64) typename Inputs::template Buffers<> repeated;
      return first_of(f, Inputs(run, b.row, repeated), b.from, kNumbers);
    } else {
      Vec<T> largest[kUnroll];
      for (int u = 0; u < kUnroll; ++u) largest[u] = broadcast(f.least());
      each_vector<kUnroll>(run, b, [&]<bool kWhole>(int u, const Inputs& in, i64, i64 j, int n) {
        Vec<T> x = kWhole ? in.template load<0>(j) : in.template load_part<0>(j, n);
        if constexpr (!kWhole) x = lane_numbers<T>() < static_cast<typename Float<T>::Int>(n) ? x : largest[u];
        largest[u] = larger_of<T>(x, largest[u]);
      });
      Vec<T> most[1] = {largest[0]};
      const auto take = [](auto& v, const auto& later) { v[0] = larger_of<T>(later[0], v[0]); };
      for (int u = 1; u < kUnroll; ++u) {
        const Vec<T> later[1] = {largest[u]};
        take(most, later);
      }
      merge_lanes<kLanes<T> / 2, T>(most, take);
      return most[0][0];
    }
  }
  template <std::size_t... K>
  static T first_of(const F<T>& f, const Inputs& in, i64 j, std::index_sequence<K...>) {
    return f.element(in.template load_part<K>(j, 1)...)[0];
  }

  template <bool kWhole, std::size_t... K>
  [[gnu::always_inline]] static auto add(const F<T>& f, Lanes& lanes, const Inputs& in, i64 before, i64 j, int n,
                                         std::index_sequence<K...>) {
    const Vec<T> index = __builtin_convertvector(lane_numbers<T>(), Vec<T>) + static_cast<T>(before + j);
    if constexpr (kWhole) {
      return lanes.add(f, index, in.template load<K>(j)...);
    } else if constexpr (kPivot == Pivot::kLargest) {
      const Lanes old = lanes;
      const Vec<T> term = lanes.add(f, index, in.template load_part<K>(j, n)...);
      restore(lanes, old, n);
      return term;
    } else {
      const Lanes old = lanes;
      lanes.add(f, index, in.template load_part<K>(j, n)...);
      restore(lanes, old, n);
    }
  }
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
