// Local response normalisation forward without a buffer of sums: every window is read where it is in the tensor, from
// the caches but for its last element.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/skeletons/elements.h"
#include "kernels/cpu/lrn.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// F: results of x and its window's sum of squares.
template <class S, class T, class F>
class LrnWindowRows {
 public:
  /// Non-temporal stores where they can write all results.
  LrnWindowRows(const F& f, const LrnRows& rows, bool non_temporal)
      : f_(f), rows_(rows), non_temporal_(non_temporal && aligned()) {}

  void compute() const { non_temporal_ ? compute_rows<true>() : compute_rows<false>(); }

 private:
  static constexpr i64 kStep = kLanes<T>;
  struct Row {
    const S* x;
    S* y;
  };

  template <bool kNonTemporal>
  void compute_rows() const {
    for (i64 r = 0; r < rows_.rows; ++r) {
      const Row row{static_cast<const S*>(rows_.x) + r * rows_.x_pitch, static_cast<S*>(rows_.y) + r * rows_.y_pitch};
      if (!rows_.along) {
        span<kNonTemporal>(row, 0, rows_.n);
        continue;
      }
      // Windows that leave a row read its neighbours, if these are in the tensor.
      const bool between = r > 0 && r + 1 < rows_.rows && rows_.x_pitch >= rows_.n;
      const i64 n = rows_.n, first = min_of(round_up(rows_.before, kStep), n);
      const i64 end = max_of(first + (n - rows_.after - first) / kStep * kStep, first);
      for (i64 i = 0; i < first; i += kStep) edge(row, i, between);
      span<kNonTemporal>(row, first, end);
      for (i64 i = end; i < n; i += kStep) edge(row, i, between);
    }
  }

  /// Whether non-temporal stores can write all results.
  bool aligned() const {
    constexpr auto kBytes = static_cast<i64>(sizeof(typename Elements<S, T>::Stored));
    const i64 size = sizeof(S);
    return reinterpret_cast<std::uintptr_t>(rows_.y) % kBytes == 0 && rows_.n * size % kBytes == 0 &&
           (rows_.rows == 1 || rows_.y_pitch * size % kBytes == 0);
  }

  /// Rounded before it is added, as where scales are stored, so that results are the same.
  [[gnu::always_inline]] static Vec<T> square(Vec<T> x) {
    x = x * x;
    hold(x);
    return x;
  }

  [[gnu::always_inline]] static void store(S* y, i64 i, Vec<T> v, bool non_temporal) {
    if (non_temporal)
      Elements<S, T>::store_non_temporal(y, i, v);
    else
      Elements<S, T>::store(y, i, v);
  }

  /// Elements whose windows have no end of a row.
  template <bool kNonTemporal>
  [[gnu::always_inline]] void span(const Row& row, i64 i, i64 end) const {
    for (; i + kMost * kStep <= end; i += kMost * kStep) vectors<kNonTemporal, kMost>(row, i);
    for (; i + kStep <= end; i += kStep) vectors<kNonTemporal, 1>(row, i);
    if (i == end) return;
    if (end >= kStep) return vectors<false, 1>(row, end - kStep);  // overlaps the one before
    const int n = static_cast<int>(end - i);
    Vec<T> sum{};
    for (i64 t = -rows_.before; t <= rows_.after; ++t) {
      const Vec<T> x = Elements<S, T>::load_part(row.x + t * rows_.step, i, n);
      sum = sum + square(x);
    }
    Elements<S, T>::store_part(row.y, i, f_(Elements<S, T>::load_part(row.x, i, n), sum), n);
  }

  template <bool kNonTemporal, int kVectors>
  [[gnu::always_inline]] void vectors(const Row& row, i64 i) const {
    Vec<T> sum[kVectors] = {};
    const S* tap = row.x + i - rows_.before * rows_.step;
    for (i64 t = rows_.before + rows_.after; t >= 0; --t, tap += rows_.step) {
#pragma GCC unroll 4
      for (int u = 0; u < kVectors; ++u) {
        const Vec<T> x = Elements<S, T>::load(tap, u * kStep);
        sum[u] = sum[u] + square(x);
      }
    }
#pragma GCC unroll 4
    for (int u = 0; u < kVectors; ++u)
      store(row.y, i + u * kStep, f_(Elements<S, T>::load(row.x, i + u * kStep), sum[u]), kNonTemporal);
  }

  /// A vector whose windows may leave the row.
  [[gnu::noinline]] void edge(const Row& row, i64 i, bool between) const {
    i = min_of(i, rows_.n - kStep);  // the last one overlaps the one before
    Vec<T> sum{};
    for (i64 t = -rows_.before; t <= rows_.after; ++t) {
      Vec<T> x{};
      if (between) {
        x = Elements<S, T>::load(row.x, i + t);
        x = is_in_row(i + t) ? x : Vec<T>{};
      } else {
        const i64 first = max_of<i64>(-(i + t), 0), end = min_of(rows_.n - (i + t), kStep);
        S part[kStep] = {};
        for (i64 k = first; k < end; ++k) part[k] = row.x[i + t + k];
        x = Elements<S, T>::load(part, 0);
      }
      sum = sum + square(x);
    }
    store(row.y, i, f_(Elements<S, T>::load(row.x, i), sum), non_temporal_);
  }
  /// Of the elements from i on.
  [[gnu::always_inline]] auto is_in_row(i64 i) const {
    const Ints<T> at = lane_numbers<T>() + static_cast<Int>(i);
    return (at >= 0) & (at < static_cast<Int>(rows_.n));
  }
  using Int = typename Float<T>::Int;

  static constexpr int kMost = 4;  // vectors at once

  const F f_;
  const LrnRows rows_;
  const bool non_temporal_;
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
