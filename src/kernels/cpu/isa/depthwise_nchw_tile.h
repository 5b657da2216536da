// NCHW register tiles: a vector of columns times a few vertically adjacent rows, for a list of columns of taps. Lane
// masks per column of taps clear elements outside the source, so that no padded copy is needed.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/depthwise_epilogue.h"
#include "kernels/cpu/isa/stencil_tile.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Memory access of a tile: contiguous, source columns with stride 2, results of two phases interleaved, any strides.
enum class ColumnMode { kDense, kHalved, kDoubled, kAny };
constexpr int most_rows(ColumnMode mode) { return mode == ColumnMode::kAny ? 1 : kMostRows; }
constexpr int source_step(ColumnMode mode) {
  return mode == ColumnMode::kAny ? 0 : mode == ColumnMode::kHalved ? 2 : 1;
}

/// How tiles make results of sums: by the epilogue, or as alpha * sum + beta * result.
template <class T>
struct NchwFinish {
  T alpha, beta;
  bool has_epilogue;    // with alpha in the scales
  T scale[2], bias[2];  // per result plane of a tile
  ActivationRange<T> range;
};

/// Common arguments of the tiles of a block of rows; distances in elements.
template <class T>
struct NchwBlock : NchwFinish<T> {
  const TapColumn* columns[2];  // per phase of dimension 2
  i64 count[2];
  i64 pitch, out_pitch;                    // between source lines, between result rows
  i64 step, out_step;                      // between source columns, between result columns
  i64 w_step;                              // between the taps of a column
  i64 planes, source_plane, weight_plane;  // summed planes: number, strides of source and weights
  i64 result_plane, result_weight;         // between result planes: strides of result and weights
};

/// Stores `count` contiguous results per row, scaled.
template <class T, int kRows>
[[gnu::always_inline]] inline void store_rows(const NchwBlock<T>& b, T* out, i64 count, const Vec<T> (&rows)[kRows]) {
  if (count <= 0) return;
  const Writer<T> writer(static_cast<int>(min_of<i64>(count, kLanes<T>)));
  const i64 pitch = b.out_pitch;
  if (b.alpha == 1 && b.beta == 0) {
#pragma GCC unroll 16
    for (int j = 0; j < kRows; ++j) writer.store(out + j * pitch, rows[j]);
    return;
  }
#pragma GCC unroll 16
  for (int j = 0; j < kRows; ++j) {
    Vec<T> v = rows[j] * broadcast(b.alpha);
    if (b.beta != 0) v += broadcast(b.beta) * writer.load(out + j * pitch);
    writer.store(out + j * pitch, v);
  }
}

/// The same with a stride between results.
template <class T, int kRows>
static void store_strided_rows(const NchwBlock<T>& b, T* out, i64 count, const Vec<T> (&rows)[kRows]) {
  for (int j = 0; j < kRows; ++j) {
    for (int i = 0; i < min_of<i64>(count, kLanes<T>); ++i) {
      T& element = out[j * b.out_pitch + i * b.out_step];
      const T v = b.alpha * rows[j][i];
      element = b.beta != 0 ? v + b.beta * element : v;
    }
  }
}

template <class V, std::size_t... I>
[[gnu::always_inline]] inline void interleave(V& a, V& b, std::index_sequence<I...>) {
  constexpr int kN = sizeof...(I);
  const V low = __builtin_shufflevector(a, b, static_cast<int>(I / 2 + I % 2 * kN)...);
  const V high = __builtin_shufflevector(a, b, static_cast<int>(kN / 2 + I / 2 + I % 2 * kN)...);
  a = low;
  b = high;
}

/// Result planes per tile: with 32 registers two planes share the loads.
template <class T>
inline constexpr int kMostResults = kRegisters == 32 && sizeof(T) == sizeof(float) ? 2 : 1;

/// Computes kRows x `count` results of kResults planes at `out` from the source at x.
template <class T, ColumnMode kMode, int kRows, int kResults, bool kInside>
[[gnu::always_inline]] inline void nchw_tile(const NchwBlock<T>& b, const T* x, const Span* spans, i64 taps, const T* w,
                                             T* out, i64 count) {
  using V = Vec<T>;
  constexpr int kN = kLanes<T>, kResidues = kMode == ColumnMode::kDoubled ? 2 : 1;
  V sum[kResidues][kResults][kRows] = {};
  for (i64 m = 0; m < b.planes; ++m, x += b.source_plane, w += b.weight_plane) {
#pragma GCC unroll 2
    for (int f = 0; f < kResidues; ++f) {
      for (const TapColumn* c = b.columns[f]; c < b.columns[f] + b.count[f]; ++c) {
        const T* source = x + c->source;
        const T* weights = w + c->weight;
        const Reader<T, source_step(kMode)> read(spans[f * taps + c->across], b.step);
        with_taps(
            c->taps, [&](auto n) __attribute__((always_inline)) {
              const auto weight = [&](int r, int t) { return broadcast(weights[r * b.result_weight + t * b.w_step]); };
              add_taps<n.value, kRows, kInside ? 0 : kAllLines, kResults>(source, b.pitch, c->lines, read, weight,
                                                                          sum[f]);
            });
      }
    }
  }
#pragma GCC unroll 2
  for (int r = 0; r < kResults; ++r, out += b.result_plane) {
    if constexpr (kMode != ColumnMode::kDoubled) {  // not forward
      if (__builtin_expect(b.has_epilogue, 0))
        finish_rows(sum[0][r], broadcast(b.scale[r]), broadcast(b.bias[r]), b.range);
    }
    if constexpr (kMode == ColumnMode::kAny) {
      store_strided_rows<T, kRows>(b, out, count, sum[0][r]);
    } else if constexpr (kMode == ColumnMode::kDoubled) {
#pragma GCC unroll 16
      for (int j = 0; j < kRows; ++j) interleave(sum[0][r][j], sum[1][r][j], std::make_index_sequence<kN>{});
      store_rows<T, kRows>(b, out, count, sum[0][r]);
      store_rows<T, kRows>(b, out + kN, count - kN, sum[1][r]);
    } else {
      store_rows<T, kRows>(b, out, count, sum[0][r]);
    }
  }
}

/// The same of the most planes at once, whose code is long.
template <class T, ColumnMode kMode, int kRows, bool kInside>
[[gnu::noinline]] static void nchw_planes_tile(const NchwBlock<T>& b, const T* x, const Span* spans, i64 taps,
                                               const T* w, T* out, i64 count) {
  nchw_tile<T, kMode, kRows, kMostResults<T>, kInside>(b, x, spans, taps, w, out, count);
}

/// Adds the products of kRows x `count` elements of dy with x to the sums of the taps.
template <class T, ColumnMode kMode, int kRows>
static void nchw_weights_tile(const NchwBlock<T>& b, const T* x, const Span* spans, const T* dy, i64 count,
                              Vec<T>* sums) {
  using V = Vec<T>;
  const Writer<T> lanes(static_cast<int>(min_of<i64>(count, kLanes<T>)));
  V rows[kRows];
#pragma GCC unroll 16
  for (int j = 0; j < kRows; ++j) rows[j] = lanes.load(dy + j * b.out_pitch);
  for (const TapColumn* c = b.columns[0]; c < b.columns[0] + b.count[0]; ++c) {
    const T* source = x + c->source;
    const Reader<T, source_step(kMode)> read(spans[c->across], b.step);
    V* const tap_sums = sums + c->weight;
    with_taps(
        c->taps, [&](auto n) __attribute__((always_inline)) {
          V sum[n.value];
#pragma GCC unroll 16
          for (int t = 0; t < n.value; ++t) sum[t] = tap_sums[t * b.w_step];
          add_rows<n.value, kRows, kAllLines>(source, b.pitch, c->lines, read, rows, sum);
#pragma GCC unroll 16
          for (int t = 0; t < n.value; ++t) tap_sums[t * b.w_step] = sum[t];
        });
  }
}

/// Calls `use` with the mode and the rows of a tile as constants.
template <ColumnMode kMode, class Use>
static void with_mode_rows(i64 rows, const Use& use) {
  with_rows<most_rows(kMode)>(rows, [&](auto count) { use(std::integral_constant<ColumnMode, kMode>{}, count); });
}
template <class Use>
static void with_tile(ColumnMode mode, i64 rows, const Use& use) {
  switch (mode) {
    case ColumnMode::kDense: return with_mode_rows<ColumnMode::kDense>(rows, use);
    case ColumnMode::kHalved: return with_mode_rows<ColumnMode::kHalved>(rows, use);
    case ColumnMode::kDoubled: return with_mode_rows<ColumnMode::kDoubled>(rows, use);
    default: return with_mode_rows<ColumnMode::kAny>(rows, use);
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
