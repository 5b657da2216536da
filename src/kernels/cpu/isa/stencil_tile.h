// Register tiles of stencils: sums of a few vertically adjacent results (forward, backward data) or of a few taps
// (backward weights). A source vector is loaded once for all taps and results of its column.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/stencil.h"
#include "kernels/cpu/isa/partial_vectors.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

#if defined(__AVX2__)
inline constexpr int kMostRows = 7;  // per register tile
#else
inline constexpr int kMostRows = 4;
#endif
/// Rows of the next tile if `left` rows remain, at most `most`. Tiles are compiled for 1, 2, 4 and 7 rows.
static inline i64 tile_rows(i64 left, int most) {
  if (most >= 7 && left >= 7 && left != 8) return 7;
  return left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

inline constexpr unsigned kAllLines = ~0u;

/// Whether all lines that `rows` results read are inside the source.
static inline bool all_inside(const TapColumn* columns, i64 count, i64 rows) {
  for (i64 i = 0; i < count; ++i)
    if (columns[i].lines + 1 != 2u << (rows + columns[i].taps - 2)) return false;
  return true;
}

/// Adds a column of taps to the sums of kResults x kRows results. read(line) loads a source vector, weight(r, t) gives
/// tap t of result r. Bit i of kMaybe: line i may be outside the source; bit i of `lines`: it is inside.
template <int kTaps, int kRows, unsigned kMaybe, int kResults, class S, class V, class Read, class Weight>
[[gnu::always_inline]] inline void add_taps(const S* line, i64 pitch, unsigned lines, const Read& read,
                                            const Weight& weight, V (*sum)[kRows]) {
  V w[kResults][kTaps];
#pragma GCC unroll 16
  for (int i = 0; i < kResults * kTaps; ++i) w[i / kTaps][i % kTaps] = weight(i / kTaps, i % kTaps);
#pragma GCC unroll 16
  for (int i = 0; i < kRows + kTaps - 1; ++i, line += pitch) {
    if ((kMaybe >> i & 1) != 0 && __builtin_expect((lines >> i & 1) == 0, 0)) continue;
    V value = read(line);
    hold(value);
#pragma GCC unroll 16
    for (int j = 0; j < kResults * kTaps; ++j) {
      const int r = j / kTaps, t = j % kTaps;
      if (i - t >= 0 && i - t < kRows) sum[r][i - t] += value * w[r][t];
    }
  }
}

/// Lane i of the result is the sum of all lanes of row i, i < count. Each step halves the number of rows.
template <int kStep, int N, class V>
[[gnu::always_inline]] inline V sum_lanes(V (&rows)[N], i64 count) {
  if constexpr (kStep == 0) {
    return rows[0];
  } else {
#pragma GCC unroll 16
    for (int i = 0; i < kStep; ++i) {
      if (i >= count) break;
      exchange<N, kStep>(rows[i], rows[i + kStep], std::make_index_sequence<N>{});
      rows[i] += rows[i + kStep];
    }
    return sum_lanes<kStep / 2, N>(rows, count);
  }
}

/// Adds the products of kRows rows of dy with the lines of x of a column of taps to the sums of these taps. Separate
/// sums of even and odd lines double the number of independent chains of additions.
template <int kTaps, int kRows, unsigned kMaybe, class S, class V, class Read>
[[gnu::always_inline]] inline void add_rows(const S* line, i64 pitch, unsigned lines, const Read& read,
                                            const V (&dy)[kRows], V (&sum)[kTaps]) {
  V odd[kTaps] = {};
#pragma GCC unroll 16
  for (int i = 0; i < kRows + kTaps - 1; ++i, line += pitch) {
    if ((kMaybe >> i & 1) != 0 && __builtin_expect((lines >> i & 1) == 0, 0)) continue;
    V value = read(line);
    hold(value);
#pragma GCC unroll 16
    for (int t = 0; t < kTaps; ++t) {
      if (i - t >= 0 && i - t < kRows) (i % 2 == 0 ? sum : odd)[t] += value * dy[i - t];
    }
  }
#pragma GCC unroll 16
  for (int t = 0; t < kTaps; ++t) sum[t] += odd[t];
}

/// Calls `use` with the number of rows of a tile as a constant, at most kMost.
template <int kMost, class Use>
[[gnu::always_inline]] inline void with_rows(i64 rows, const Use& use) {
  if constexpr (kMost >= 7) {
    if (rows == 7) return use(std::integral_constant<int, 7>{});
  }
  if constexpr (kMost >= 4) {
    if (rows == 4) return use(std::integral_constant<int, 4>{});
    if (rows == 2) return use(std::integral_constant<int, 2>{});
  }
  use(std::integral_constant<int, 1>{});
}

/// Calls `use` with the number of taps of a column as a constant.
template <class Use>
[[gnu::always_inline]] inline void with_taps(int taps, const Use& use) {
  switch (taps) {
    case 1: return use(std::integral_constant<int, 1>{});
    case 2: return use(std::integral_constant<int, 2>{});
    case 3: return use(std::integral_constant<int, 3>{});
    default: return use(std::integral_constant<int, 5>{});
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
