// The sums that the gradient of a norm needs of rows, and those of dw and db, in one pass over contiguous rows; of
// short rows dx, too.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/skeletons/accumulators.h"
#include "kernels/cpu/isa/skeletons/map_row.h"
#include "kernels/cpu/norm.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Calls body<P>() for the type of parameters or statistics of data of type S.
template <class S, class Body>
auto with_other(DataType other, const Body& body) {
  if constexpr (kIs16BitFloat<S>)
    if (other == DataType::kFloat) return body.template operator()<float>();
  return body.template operator()<S>();
}

/// Leaves the sum of the lanes of vector i in lane i of the first.
template <int kHalf, class T, std::size_t kCount>
void add_lanes(Vec<T> (&v)[kCount]) {
  constexpr int kStep = kLanes<T>;
  if constexpr (kHalf < kStep) {
    for (int i = 0; i < kStep; i += 2 * kHalf) {
      exchange<kStep, kHalf>(v[i], v[i + kHalf], std::make_index_sequence<kCount>{});
      v[i] = v[i] + v[i + kHalf];
    }
    add_lanes<2 * kHalf, T>(v);
  }
}

/// The sums of n columns.
template <class T, std::size_t kColumns>
void clear(T (&of_columns)[2][kColumns], i64 n) {
  for (i64 i = 0; i < n; i += kLanes<T>)
    for (T* const to : {of_columns[0], of_columns[1]}) store(to + i, Vec<T>{});
}

/// T: type of the arithmetic.
template <class S, class T>
class GradientSums {
 public:
  GradientSums(const NormVariant& v, const Run& run) : v_(v), run_(run) {}

  /// As NormKernels::gradient_sums.
  void compute(double* values, i64 pitch, double* sums) const {
    alignas(64) T weight[kColumns], of_columns[2][kColumns];
    for (i64 c = 0; c < run_.n; c += kColumns) {
      const i64 n = min_of(run_.n - c, kColumns);
      clear(of_columns, n);
      load_weight(c, n, weight);
      for (i64 r = 0; r < run_.rows; r += kStep) {
        const Group group(*this, r);
        Vec<T> of_rows[2];
        add_group(group, c, n, weight, of_columns, of_rows);
        for (int k = 0; k < 2; ++k) {
          double* const to = values + k * pitch + r;
          for (i64 i = 0; i < group.rows; ++i) to[i] = (c == 0 ? 0 : to[i]) + static_cast<double>(of_rows[k][i]);
        }
      }
      add_columns(of_columns, c, n, sums);
    }
  }

  /// As NormKernels::gradient_of_short_rows.
  void compute_short(double* sums) const {
    constexpr i64 kFloatRows = 64;
    alignas(64) T weight[kColumns], of_columns[2][kColumns];
    const i64 n = run_.n;
    const RowMap map(n, run_.out[0] != run_.in[0] && run_.out[0] != run_.in[1]);
    const bool streams = v_.non_temporal && map.fills_lines(run_);
    const T share = 1 / static_cast<T>(n);
    load_weight(0, n, weight);
    for (i64 first = 0; first < run_.rows; first += kFloatRows) {
      clear(of_columns, n);
      for (i64 r = first, end = min_of(first + kFloatRows, run_.rows); r < end; r += kStep) {
        const Group group(*this, r);
        Vec<T> of_rows[2];
        add_group(group, 0, n, weight, of_columns, of_rows);
        of_rows[0] = v_.rms ? Vec<T>{} : of_rows[0] * share;
        of_rows[1] = of_rows[1] * share;
        streams ? write_group<true>(map, group, weight, of_rows) : write_group<false>(map, group, weight, of_rows);
      }
      add_columns(of_columns, 0, n, sums);
    }
    if (streams) finish_non_temporal_stores();
  }

 private:
  using RowMap = MapRow<T, Types<S, S, T>, Types<S>>;
  static constexpr i64 kStep = kLanes<T>, kColumns = kShortRowBytes / 2;

  /// Up to kStep rows.
  struct Group {
    Group(const GradientSums& of, i64 first) : row(first), rows(min_of(of.run_.rows - first, kStep)) {
      const int input = of.v_.affine ? 3 : 2;
      if (of.v_.rms)
        store(mean, Vec<T>{});
      else
        store(mean, of.statistics(input, first, rows));
      store(rstd, of.statistics(of.v_.rms ? input : input + 1, first, rows));
    }
    i64 row, rows;
    alignas(64) T mean[kStep], rstd[kStep];
  };

  void add_columns(const T (&of_columns)[2][kColumns], i64 c, i64 n, double* sums) const {
    for (int k = 0; k < (v_.rms ? 1 : 2); ++k)
      for (i64 i = 0; i < n; ++i) sums[k * run_.n + c + i] += static_cast<double>(of_columns[k][i]);
  }

  const unsigned char* input(int k, i64 row) const {
    return static_cast<const unsigned char*>(run_.in[k]) + row * run_.in_row_bytes[k];
  }

  /// Adds the n columns from c on to the sums of columns; lane i of the vectors of `of_rows` gets those of row i.
  void add_group(const Group& group, i64 c, i64 n, const T* weight, T (&of_columns)[2][kColumns],
                 Vec<T> (&of_rows)[2]) const {
    Vec<T> lanes[2][kStep];
    i64 i = 0;
    if constexpr (kStep >= 4)
      for (; i + 4 <= group.rows; i += 4) add_rows<4>(group, i, c, n, weight, of_columns, lanes);
    for (; i < group.rows; ++i) add_rows<1>(group, i, c, n, weight, of_columns, lanes);
    for (; i < kStep; ++i) lanes[0][i] = lanes[1][i] = Vec<T>{};
    for (int k = 0; k < 2; ++k) {
      add_lanes<1, T>(lanes[k]);
      of_rows[k] = lanes[k][0];
    }
  }

  /// Adds kRows rows, of which row `first` of the group is the first.
  template <int kRows>
  void add_rows(const Group& group, i64 first, i64 c, i64 n, const T* weight, T (&of_columns)[2][kColumns],
                Vec<T> (&lanes)[2][kStep]) const {
    const void* in[kRows][2];
    Vec<T> mean[kRows], rstd[kRows], g_sum[kRows] = {}, product[kRows] = {};
    for (int r = 0; r < kRows; ++r) {
      for (int k = 0; k < 2; ++k) in[r][k] = input(k, group.row + first + r) + c * static_cast<i64>(sizeof(S));
      mean[r] = broadcast(group.mean[first + r]);
      rstd[r] = broadcast(group.rstd[first + r]);
    }
    const auto add = [&](i64 i, const auto& load_input, const auto& normalized) {
      const Vec<T> w = load(weight + i);
      Vec<T> dw = load(of_columns[0] + i), db = load(of_columns[1] + i);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const Vec<T> dy = load_input(in[r], 0), xhat = normalized((load_input(in[r], 1) - mean[r]) * rstd[r]),
                     g = dy * w;
        dw = dw + dy * xhat;
        db = db + dy;
        g_sum[r] = g_sum[r] + g;
        product[r] = product[r] + g * xhat;
      }
      store(of_columns[0] + i, dw);
      store(of_columns[1] + i, db);
    };
    i64 i = 0;
    for (; i + kStep <= n; i += kStep)
      add(
          i, [&](const void* const* from, int k) { return Elements<S, T>::load(from[k], i); },
          [](Vec<T> v) { return v; });
    if (i < n) {
      const auto used = lane_numbers<T>() < static_cast<typename Float<T>::Int>(n - i);
      add(
          i,
          [&](const void* const* from, int k) {
            return Elements<S, T>::load_part(from[k], i, static_cast<int>(n - i));
          },
          [&](Vec<T> v) { return used ? v : Vec<T>{}; });  // lanes after the row add 0 even if rstd is infinite
    }
    for (int r = 0; r < kRows; ++r) {
      lanes[0][first + r] = g_sum[r];
      lanes[1][first + r] = product[r];
    }
  }

  /// n elements of the weight from c on, 1 without one; whole vectors are written.
  void load_weight(i64 c, i64 n, T* to) const {
    if (!v_.affine) {
      for (i64 i = 0; i < n; i += kStep) store(to + i, broadcast(T{1}));
      return;
    }
    with_other<S>(v_.parameters, [&]<class P>() {
      const P* const from = static_cast<const P*>(run_.in[2]) + c;
      i64 i = 0;
      for (; i + kStep <= n; i += kStep) store(to + i, Elements<P, T>::load(from, i));
      if (i < n) store(to + i, Elements<P, T>::load_part(from, i, static_cast<int>(n - i)));
    });
  }

  /// Input k of n rows, of which it has one element each.
  Vec<T> statistics(int k, i64 row, i64 n) const {
    return with_other<S>(v_.statistics, [&]<class Q>() {
      return n == kStep ? Elements<Q, T>::load(run_.in[k], row)
                        : Elements<Q, T>::load_part(run_.in[k], row, static_cast<int>(n));
    });
  }

  /// dx from the rows' sums divided by their elements.
  template <bool kNonTemporal>
  void write_group(const RowMap& map, const Group& group, const T* weight, const Vec<T> (&of_rows)[2]) const {
    for (i64 r = 0; r < group.rows; ++r) {
      if (run_.prefetches) RowInputs<T, S, S>::prefetch(run_, group.row + r + kStep, 2);
      const Vec<T> mean = broadcast(group.mean[r]), rstd = broadcast(group.rstd[r]), g_mean = broadcast(of_rows[0][r]),
                   product_mean = broadcast(of_rows[1][r]);
      const i64 row = group.row + r;
      map.template compute<kNonTemporal>(
          [&](Vec<T> dy, Vec<T> x, Vec<T> w) { return (dy * w - g_mean - (x - mean) * rstd * product_mean) * rstd; },
          typename RowMap::Inputs({input(0, row), input(1, row), weight}),
          static_cast<unsigned char*>(run_.out[0]) + row * run_.out_row_bytes[0]);
    }
  }

  const NormVariant& v_;
  const Run& run_;
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
