// Products of the state of recurrent networks, summed in fp32: of packed weights, or of few samples with the weights in
// place, which a step then reads once as they are.
// SPDX-License-Identifier: MIT
#include <utility>

#include "kernels/cpu/isa/gemv_axpy.h"
#include "kernels/cpu/isa/panel_product.h"
#include "kernels/cpu/isa/transpose.h"
#include "kernels/cpu/rnn.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

constexpr int kN = kLanes<float>;
constexpr i64 kBytes = sizeof(float);
constexpr i64 kPanelBytes = 16 * 1024;  // of a block of depth: stays in the first-level cache for all tiles of rows

i64 block_depth(i64 depth) {
  constexpr i64 kMost = kPanelBytes / (kPanelLanes * kBytes);
  return ceil_div(depth, ceil_div(depth, kMost));
}

/// Tiles of nearly equal height: the first `higher` ones have a row more.
struct Tiles {
  i64 count, rows, higher;
  explicit Tiles(i64 all) : count(ceil_div(all, i64{kTileRows})), rows(all / count), higher(all % count) {}
};

/// Tiles of the same height by a panel, each followed by the next in a and c. Every step prefetches a part of a line of
/// `next`.
template <int kRows>
void multiply_tiles(const float* a, const float* b, i64 steps, i64 tiles, bool adds, float* c, const char*& next,
                    i64 next_step) {
  for (; tiles > 0; --tiles, a += kRows * steps, c += kRows * kPanelLanes, next += next_step * steps) {
    Floats sum[kRows][2];
    multiply_panels<kRows>(
        a, b, steps, sum, [&](i64 k) __attribute__((always_inline)) { __builtin_prefetch(next + k * next_step); });
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        float* const p = c + r * kPanelLanes + j * kN;
        store(p, adds ? load(p) + sum[r][j] : sum[r][j]);
      }
  }
}
using MultiplyTiles = void (*)(const float*, const float*, i64, i64, bool, float*, const char*&, i64);
template <int... kRow>
MultiplyTiles tiles_kernel(i64 rows, std::integer_sequence<int, kRow...>) {
  static constexpr MultiplyTiles kKernels[] = {multiply_tiles<kRow + 1>...};
  return kKernels[rows - 1];
}

/// [tile][step][row]. Lanes beyond a tile are overwritten by what follows.
template <class S>
void pack_tiles(const S* a, i64 pitch, const Tiles& tiles, i64 steps, float* to) {
  for (i64 t = 0; t < tiles.count; ++t) {
    const i64 rows = tiles.rows + (t < tiles.higher);
    for (i64 l = (rows - 1) / kN * kN; l >= 0; l -= kN)
      transpose_in(a + l * pitch, pitch, static_cast<int>(min_of<i64>(kN, rows - l)), steps, to + l, rows);
    a += rows * pitch;
    to += rows * steps;
  }
}

std::size_t scratch_of(i64 rows, i64 depth) {
  return static_cast<std::size_t>(round_up(rows * block_depth(depth) + kN, 16)) * sizeof(float);
}

/// Blocks of depth are outermost: the rows of one stay in the second-level cache.
void multiply(const RnnFloatProduct& p, void* scratch) {
  if (p.rows == 0) return;
  const Tiles tiles(p.rows);
  const i64 most = block_depth(p.depth), panel = p.depth * kPanelLanes, panels = p.columns / kPanelLanes;
  auto* const packed = static_cast<float*>(scratch);
  for (i64 k = 0; k < p.depth; k += most) {
    const i64 steps = min_of(most, p.depth - k), next_step = ceil_div(kPanelLanes * kBytes, tiles.count);
    with_storage<float>(p.type, [&](auto* s) {
      pack_tiles(static_cast<decltype(s)>(const_cast<void*>(p.a)) + k, p.a_pitch, tiles, steps, packed);
    });
    for (i64 n = 0; n < panels; ++n) {
      const float *const b = p.b + n * panel + k * kPanelLanes, *a = packed;
      float* c = p.c + n * p.rows * kPanelLanes;
      const char* next = reinterpret_cast<const char*>(n + 1 < panels ? b + panel : p.b + (k + steps) * kPanelLanes);
      for (const bool higher : {true, false}) {
        const i64 rows = tiles.rows + higher, count = higher ? tiles.higher : tiles.count - tiles.higher;
        if (count == 0) continue;
        tiles_kernel(rows, std::make_integer_sequence<int, kTileRows>{})(a, b, steps, count, k > 0, c, next, next_step);
        a += count * rows * steps;
        c += count * rows * kPanelLanes;
      }
    }
  }
}

void pack_rows(DataType type, const void* matrix, i64 pitch, i64 depth, i64 rows, float* panel) {
  with_storage<float>(type, [&](auto* s) {
    const auto* const from = static_cast<decltype(s)>(const_cast<void*>(matrix));
    for (i64 l = 0; l < kPanelLanes; l += kN)
      transpose_in(from + l * pitch, pitch, static_cast<int>(max_of<i64>(0, min_of<i64>(kN, rows - l))), depth,
                   panel + l, kPanelLanes);
  });
}

void pack_columns(DataType type, const void* matrix, i64 pitch, i64 depth, i64 columns, float* panel) {
  with_storage<float>(type, [&](auto* s) {
    const auto* line = static_cast<decltype(s)>(const_cast<void*>(matrix));
    for (i64 d = 0; d < depth; ++d, line += pitch)
      for (i64 l = 0; l < kPanelLanes; l += kN, panel += kN) {
        const i64 rest = columns - l;
        store(panel, rest >= kN  ? fetch_vector<float>(line + l)
                     : rest <= 0 ? Floats{}
                                 : fetch_vector<float>(line + l, static_cast<int>(rest)));
      }
  });
}

/// Some lines of weights at once, as many streams as hardware prefetchers follow well.
template <int kRows>
void dot(const RnnFloatProduct& p) {
  constexpr int kLines = kRows <= 2 ? 4 : 2;
  const auto* const a = static_cast<const float*>(p.a);
  for (i64 n = 0; n < p.columns; n += kN) {
    Floats sums[kRows][kN];
#pragma GCC unroll 8
    for (int column = 0; column < kN; column += kLines) {
      const float* line[kLines];
      Floats sum[kRows][kLines];
#pragma GCC unroll 4
      for (int t = 0; t < kLines; ++t) {
        line[t] = p.b + min_of(n + column + t, p.columns - 1) * p.b_pitch;  // the last one again in unused lanes
#pragma GCC unroll 4
        for (int i = 0; i < kRows; ++i) sum[i][t] = Floats{};
      }
      const auto add = [&](i64 d, const auto& read) __attribute__((always_inline)) {
        Floats state[kRows];
#pragma GCC unroll 4
        for (int i = 0; i < kRows; ++i) state[i] = read(a + i * p.a_pitch + d);
#pragma GCC unroll 4
        for (int t = 0; t < kLines; ++t) {
          const Floats weights = read(line[t] + d);
#pragma GCC unroll 4
          for (int i = 0; i < kRows; ++i) sum[i][t] += state[i] * weights;
        }
      };
      i64 d = 0;
      for (; d + kN <= p.depth; d += kN)
        add(
            d, [](const float* v) __attribute__((always_inline)) { return load(v); });
      const int rest = static_cast<int>(p.depth - d);
      if (rest > 0)
        add(
            d, [rest](const float* v) __attribute__((always_inline)) { return fetch_vector<float>(v, rest); });
#pragma GCC unroll 4
      for (int t = 0; t < kLines; ++t)
#pragma GCC unroll 4
        for (int i = 0; i < kRows; ++i) sums[i][column + t] = sum[i][t];
    }
    for (int i = 0; i < kRows; ++i) {
      transpose(sums[i]);
#pragma GCC unroll 4
      for (int step = 1; step < kN; step *= 2)
#pragma GCC unroll 16
        for (int l = 0; l < kN; l += 2 * step) sums[i][l] += sums[i][l + step];
      put_vector<float>(p.c + i * p.c_pitch + n, sums[i][0], static_cast<int>(min_of<i64>(kN, p.columns - n)));
    }
  }
}

/// Sums of weights' lines, of a block of depth in the first-level cache.
template <int kRows>
void axpy(const RnnFloatProduct& p) {
  constexpr int kSteps = kRows == 1 ? 8 : kRows == 2 ? 4 : 2;
  constexpr i64 kColumns = kAxpySumBytes / kBytes / kRows / kN * kN, kBlock = 512;
  alignas(64) float sums[kRows * kColumns];
  for (i64 n = 0; n < p.columns; n += kColumns) {
    const i64 columns = min_of(kColumns, p.columns - n);
    for (i64 k = 0; k < p.depth;) {
      const bool adds = k > 0;
      const i64 end = min_of(k + kBlock, p.depth);
      for (i64 e = 0; e < kRows * kColumns; e += kN) store(sums + e, Floats{});
      const auto lines = [&](auto steps) {
        for (; k + steps.value <= end; k += steps.value)
          axpy_lines<kRows, steps.value, float>(static_cast<const float*>(p.a) + k, p.a_pitch, 1,
                                                p.b + k * p.b_pitch + n, p.b_pitch, columns, sums, kColumns);
      };
      lines(std::integral_constant<int, kSteps>{});
      lines(std::integral_constant<int, 1>{});
      for (int i = 0; i < kRows; ++i)
        for (i64 e = 0; e < columns; e += kN) {
          const int some = static_cast<int>(min_of<i64>(kN, columns - e));
          float* const c = p.c + i * p.c_pitch + n + e;
          const Floats sum = load(sums + i * kColumns + e);
          put_vector<float>(c, adds ? sum + fetch_vector<float>(c, some) : sum, some);
        }
    }
  }
}

void multiply_rows(const RnnFloatProduct& p) {
  switch (p.rows) {
    case 0: return;
    case 1: return dot<1>(p);
    case 2: return dot<2>(p);
    case 3: return dot<3>(p);
    default: return dot<4>(p);
  }
}

void multiply_columns(const RnnFloatProduct& p) {
  switch (p.rows) {
    case 0: return;
    case 1: return axpy<1>(p);
    case 2: return axpy<2>(p);
    case 3: return axpy<3>(p);
    default: return axpy<4>(p);
  }
}

}  // namespace

template <>
const RnnFloatKernels& entry_points<RnnFloatKernels>() {
  static constexpr RnnFloatKernels kKernels{.lanes = kPanelLanes,
                                            .multiply = multiply,
                                            .scratch = scratch_of,
                                            .pack_rows = pack_rows,
                                            .pack_columns = pack_columns,
                                            .multiply_rows = multiply_rows,
                                            .multiply_columns = multiply_columns};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
