// Matrix products of few rows by a large B whose columns are contiguous, such as backward data of a fully connected
// layer of few images: sums of scaled lines of B (axpy). The kernel reads B once, a few long lines at a time, which
// hardware prefetchers follow; the sums stay in the first-level cache.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/copy_blocks.h"
#include "kernels/cpu/isa/store_results.h"
#include "kernels/cpu/isa/gemm_block_sizes.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

inline constexpr i64 kMaxAxpyRows = 4;
inline constexpr i64 kAxpySumBytes = 8192;         // of sums, all rows
inline constexpr i64 kMinAxpyBytes = 1024 * 1024;  // of B: register tiles read a smaller one as fast
inline constexpr i64 kMinAxpyDepth = 128;          // over which clearing and storing the sums is amortized

/// Whether gemv_axpy() computes the product. Depends on the whole product, not on its pieces.
static inline bool is_gemv_axpy(const Gemm& g) {
  const i64 size = static_cast<i64>(size_of(g.b.dtype));
  const bool has_one_type = g.a.dtype == g.b.dtype && g.a.dtype == g.c.dtype;
  const auto is_uniform = [](const Operand& o) {
    return !is_bounded(o) && is_uniformly_strided(o.lanes) && is_uniformly_strided(o.depth);
  };
  return g.m <= kMaxAxpyRows && g.k >= kMinAxpyDepth && g.n * size >= 1024 && g.n * g.k * size >= kMinAxpyBytes &&
         g.c.gap == 0 && has_one_type && is_uniform(g.a) && is_uniform(g.b) && inner(g.b.lanes).stride == 1 &&
         is_uniformly_strided(g.c.columns) && inner(g.c.columns).stride == 1;
}

/// sums[i][e] += a[i][k] * b[k][e] for kSteps depths k. Strides in elements.
template <int kRows, int kSteps, class T, class S>
[[gnu::noinline]] static void axpy_lines(const S* a, i64 a_row, i64 a_step, const S* b, i64 b_step, i64 columns,
                                         T* sums, i64 pitch) {
  constexpr int kN = kLanes<T>;
  Vec<T> scale[kRows][kSteps];
  for (int i = 0; i < kRows; ++i)
    for (int k = 0; k < kSteps; ++k) scale[i][k] = broadcast(static_cast<T>(widen(a[i * a_row + k * a_step])));
  const auto add = [&](const auto& read, i64 e) __attribute__((always_inline)) {
    Vec<T> sum[kRows];
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) sum[i] = load(sums + i * pitch + e);
#pragma GCC unroll 8
    for (int k = 0; k < kSteps; ++k) {
      const Vec<T> line = read(b + k * b_step + e);
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) sum[i] += scale[i][k] * line;
    }
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) store(sums + i * pitch + e, sum[i]);
  };
  i64 e = 0;
  for (; e + kN <= columns; e += kN)
    add(
        [](const S* p) __attribute__((always_inline)) { return fetch_vector<T>(p); }, e);
  const int rest = static_cast<int>(columns - e);
  if (rest > 0)
    add(
        [rest](const S* p) __attribute__((always_inline)) { return fetch_vector<T>(p, rest); }, e);
}

/// kRows rows of C from m0 on, columns [n0, n1).
template <int kRows, class T, class S>
static void gemv_axpy_rows(const Gemm& g, i64 m0, i64 n0, i64 n1, T* sums) {
  constexpr int kN = kLanes<T>, kSteps = kRows == 1 ? 8 : kRows == 2 ? 4 : 2;
  constexpr i64 kColumns = kAxpySumBytes / static_cast<i64>(sizeof(T)) / kRows / kN * kN;
  const i64 a_row = inner(g.a.lanes).stride, a_step = inner(g.a.depth).stride, b_step = inner(g.b.depth).stride;
  const i64 block = __is_same(S, T) ? g.depth_step() : g.k;  // 16-bit results are rounded once
  for (i64 n = n0; n < n1; n += kColumns) {
    const i64 columns = min_of(kColumns, n1 - n);
    for (i64 k0 = 0; k0 < g.k; k0 += block) {
      const i64 end = min_of(k0 + block, g.k);
      const S* a = static_cast<const S*>(g.a.data) + g.a.offset + m0 * a_row + k0 * a_step;
      const S* b = static_cast<const S*>(g.b.data) + g.b.offset + n + k0 * b_step;
      for (i64 e = 0; e < kRows * kColumns; e += kN) store(sums + e, Vec<T>{});
      i64 k = k0;
      for (; k + kSteps <= end; k += kSteps, a += kSteps * a_step, b += kSteps * b_step)
        axpy_lines<kRows, kSteps, T>(a, a_row, a_step, b, b_step, columns, sums, kColumns);
      for (; k < end; ++k, a += a_step, b += b_step)
        axpy_lines<kRows, 1, T>(a, a_row, a_step, b, b_step, columns, sums, kColumns);
      const Emit<T, S> emit{static_cast<T>(g.alpha), k0 == 0 ? static_cast<T>(g.beta) : T{1}};
      for (int i = 0; i < kRows; ++i) {
        S* const c = static_cast<S*>(g.c.data) + g.c.offset + seek(g.c.rows, m0 + i).offset + n;
        for (i64 e = 0; e < columns; e += kN) {
          emit(c + e, load(sums + i * kColumns + e), static_cast<int>(min_of<i64>(kN, columns - e)));
        }
      }
    }
  }
}

/// Rows [m0, m1) and columns [n0, n1) of C; all elements are stored as S. scratch: kAxpySumBytes.
template <class T, class S>
static void gemv_axpy(const Gemm& g, i64 m0, i64 m1, i64 n0, i64 n1, void* scratch) {
  T* const sums = static_cast<T*>(scratch);
  switch (m1 - m0) {
    case 1: return gemv_axpy_rows<1, T, S>(g, m0, n0, n1, sums);
    case 2: return gemv_axpy_rows<2, T, S>(g, m0, n0, n1, sums);
    case 3: return gemv_axpy_rows<3, T, S>(g, m0, n0, n1, sums);
    default: return gemv_axpy_rows<4, T, S>(g, m0, n0, n1, sums);
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
