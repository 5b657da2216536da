// The sums that the gradient of a norm needs of rows, and those of dw and db, in one pass over contiguous rows.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/skeletons/accumulators.h"
#include "kernels/cpu/norm.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Calls body<P>() for the type of parameters or statistics of data of type S.
template <class S, class Body>
auto with_other(DataType other, const Body& body) {
  if constexpr (kIs16BitFloat<S>)
    if (other == DataType::kFloat) return body.template operator()<float>();
  return body.template operator()<S>();
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
      for (i64 i = 0; i < n; i += kStep)
        for (T* const to : {of_columns[0], of_columns[1]}) store(to + i, Vec<T>{});
      load_weight(c, n, weight);
      for (i64 r = 0; r < run_.rows; r += kStep) {
        const i64 rows = min_of(run_.rows - r, kStep);
        Vec<T> of_rows[2][kStep] = {};
        i64 i = 0;
        for (; i + 4 <= rows; i += 4) add_rows<4>(r + i, c, n, weight, of_columns, of_rows[0] + i, of_rows[1] + i);
        for (; i < rows; ++i) add_rows<1>(r + i, c, n, weight, of_columns, of_rows[0] + i, of_rows[1] + i);
        for (int k = 0; k < 2; ++k) {
          add_lanes<1>(of_rows[k]);
          double* const to = values + k * pitch + r;
          for (i = 0; i < rows; ++i) to[i] = (c == 0 ? 0 : to[i]) + static_cast<double>(of_rows[k][0][i]);
        }
      }
      for (int k = 0; k < (v_.rms ? 1 : 2); ++k)
        for (i64 i = 0; i < n; ++i) sums[k * run_.n + c + i] += static_cast<double>(of_columns[k][i]);
    }
  }

 private:
  static constexpr i64 kStep = kLanes<T>, kColumns = 512;

  /// Adds kRows rows from `row` on, of the n columns from c on, to the sums of columns and rows.
  template <int kRows>
  void add_rows(i64 row, i64 c, i64 n, const T* weight, T (&of_columns)[2][kColumns], Vec<T>* g_sums,
                Vec<T>* products) const {
    const void* in[kRows][2];
    Vec<T> mean[kRows], rstd[kRows], g_sum[kRows] = {}, product[kRows] = {};
    for (int r = 0; r < kRows; ++r) {
      for (int k = 0; k < 2; ++k)
        in[r][k] = static_cast<const unsigned char*>(run_.in[k]) + (row + r) * run_.in_row_bytes[k] +
                   c * static_cast<i64>(sizeof(S));
      const int of_row = v_.affine ? 3 : 2;
      mean[r] = v_.rms ? Vec<T>{} : broadcast(statistic(of_row, row + r));
      rstd[r] = broadcast(statistic(v_.rms ? of_row : of_row + 1, row + r));
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
      g_sums[r] = g_sum[r];
      products[r] = product[r];
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

  /// Input k, which has one element per row.
  T statistic(int k, i64 row) const {
    return with_other<S>(v_.statistics, [&]<class Q>() {
      const void* const from = static_cast<const unsigned char*>(run_.in[k]) + row * run_.in_row_bytes[k];
      return static_cast<T>(Elements<Q, T>::load_part(from, 0, 1)[0]);
    });
  }

  /// Leaves the sum of the lanes of vector i in lane i of the first.
  template <int kHalf>
  static void add_lanes(Vec<T> (&v)[kStep]) {
    if constexpr (kHalf < kStep) {
      for (i64 i = 0; i < kStep; i += 2 * kHalf) {
        exchange<kStep, kHalf>(v[i], v[i + kHalf], std::make_index_sequence<static_cast<std::size_t>(kStep)>{});
        v[i] = v[i] + v[i + kHalf];
      }
      add_lanes<2 * kHalf>(v);
    }
  }

  const NormVariant& v_;
  const Run& run_;
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
