// Matrix products with few rows or columns as dot products (GEMV and fully connected layers of few images), for
// operands whose depths are contiguous: vectors run along the depth, so that the kernel transposes nothing and reads
// the large operand once, in place.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/copy_blocks.h"
#include "kernels/cpu/isa/gemm_block_sizes.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

inline constexpr i64 kMaxDotLanes = 4;  // rows or columns of C

/// Whether all depths of a lane are contiguous, and lanes uniformly strided.
static inline bool has_dense_depths(const Operand& o) {
  return !is_bounded(o) && is_uniformly_strided(o.depth) && inner(o.depth).stride == 1 && is_uniformly_strided(o.lanes);
}

/// Whether gemv_dot() computes the product. Depends on the whole product, not on its pieces, since it decides the order
/// of summation.
static inline bool is_gemv_dot(const Gemm& g) {
  constexpr i64 kMinDepth = 512;  // with less, the horizontal sums take too large a share
  const bool has_one_type = g.a.dtype == g.b.dtype && g.a.dtype == g.c.dtype;
  return min_of(g.m, g.n) <= kMaxDotLanes && g.k >= kMinDepth && g.c.gap == 0 && has_one_type &&
         has_dense_depths(g.a) && has_dense_depths(g.b);
}

/// kFew lanes of one operand times kMany lanes of the other; calls use(i, j, sum). Strides in elements from lane to
/// lane.
template <int kFew, int kMany, class T, class S, class Use>
[[gnu::always_inline]] inline void dot_tile(const S* few, i64 few_step, const S* many, i64 many_step, i64 depth,
                                            const Use& use) {
  constexpr i64 kN = kLanes<T>, kBlock = kGemmDepthBlock * kN;
  Vec<T> sum[kFew][kMany] = {}, blocks[kFew][kMany] = {};
  const auto add = [&](const auto& read, i64 d) __attribute__((always_inline)) {
    Vec<T> f[kFew];
#pragma GCC unroll 4
    for (int i = 0; i < kFew; ++i) f[i] = read(few + i * few_step + d);
#pragma GCC unroll 4
    for (int j = 0; j < kMany; ++j) {
      const Vec<T> m = read(many + j * many_step + d);
#pragma GCC unroll 4
      for (int i = 0; i < kFew; ++i) sum[i][j] += f[i] * m;
    }
  };
  i64 d = 0;
  while (d + kN <= depth) {
    for (const i64 end = min_of(d + kBlock, depth); d + kN <= end; d += kN)
      add(
          [](const S* p) __attribute__((always_inline)) { return fetch_vector<T>(p); }, d);
    if (d + kN > depth) break;
    for (int t = 0; t < kFew * kMany; ++t) {
      blocks[t / kMany][t % kMany] += sum[t / kMany][t % kMany];
      sum[t / kMany][t % kMany] = Vec<T>{};
    }
  }
  const int rest = static_cast<int>(depth - d);
  if (rest > 0)
    add(
        [rest](const S* p) __attribute__((always_inline)) { return fetch_vector<T>(p, rest); }, d);
  Vec<T> all[kFew * kMany];
#pragma GCC unroll 16
  for (int t = 0; t < kFew * kMany; ++t) all[t] = blocks[t / kMany][t % kMany] + sum[t / kMany][t % kMany];
#pragma GCC unroll 1
  for (int t = 0; t < kFew * kMany; ++t) {
    T total = 0;
    for (int l = 0; l < kN; ++l) total += all[t][l];
    use(t / kMany, t % kMany, total);
  }
}

/// kFew lanes of one operand times `count` lanes of the other.
template <int kFew, class T, class S, class Use>
static void dot_lanes(const S* few, i64 few_step, const S* many, i64 many_step, i64 count, i64 depth, const Use& use) {
  constexpr int kMany = 4;
  i64 lane = 0;
  for (; lane + kMany <= count; lane += kMany)
    dot_tile<kFew, kMany, T>(few, few_step, many + lane * many_step, many_step, depth,
                             [&](i64 i, i64 j, T sum) { use(i, lane + j, sum); });
  for (; lane < count; ++lane)
    dot_tile<kFew, 1, T>(few, few_step, many + lane * many_step, many_step, depth,
                         [&](i64 i, i64, T sum) { use(i, lane, sum); });
}

/// Rows [m0, m1) and columns [n0, n1) of C; all elements are stored as S.
template <class T, class S>
static void gemv_dot(const Gemm& g, i64 m0, i64 m1, i64 n0, i64 n1) {
  const bool few_rows = g.m <= g.n;
  const auto step_of = [](const Operand& o) { return inner(o.lanes).stride; };
  const auto lane = [&](const Operand& o, i64 i) { return static_cast<const S*>(o.data) + o.offset + i * step_of(o); };
  const i64 a_step = step_of(g.a), b_step = step_of(g.b), rows = m1 - m0, columns = n1 - n0;
  const T alpha = static_cast<T>(g.alpha), beta = static_cast<T>(g.beta);
  const auto put = [&](i64 few, i64 many, T sum) {
    const i64 i = few_rows ? few : many, j = few_rows ? many : few;
    S& c = static_cast<S*>(g.c.data)[g.c.offset + seek(g.c.rows, m0 + i).offset + seek(g.c.columns, n0 + j).offset];
    c = narrow<S>(beta != 0 ? alpha * sum + beta * static_cast<T>(widen(c)) : alpha * sum);
  };
  const auto all = [&](auto few) {
    const S *a = lane(g.a, m0), *b = lane(g.b, n0);
    dot_lanes<few.value, T>(few_rows ? a : b, few_rows ? a_step : b_step, few_rows ? b : a, few_rows ? b_step : a_step,
                            few_rows ? columns : rows, g.k, put);
  };
  switch (few_rows ? rows : columns) {
    case 1: return all(std::integral_constant<int, 1>{});
    case 2: return all(std::integral_constant<int, 2>{});
    case 3: return all(std::integral_constant<int, 3>{});
    default: return all(std::integral_constant<int, 4>{});
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
