// Attention of a block of queries, in fp32. Lanes are queries: a panel of two vectors of queries times tiles of keys
// gives scores [key][query], whose softmax needs no sums across lanes, and which are in order for the product with
// tiles of values.
// SPDX-License-Identifier: MIT
#pragma once
#include <utility>

#include "kernels/cpu/isa/gemm_scratch.h"
#include "kernels/cpu/isa/panel_product.h"
#include "kernels/cpu/isa/skeletons/elements.h"
#include "kernels/cpu/isa/transpose.h"
#include "kernels/cpu/mha.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

inline constexpr int kQueryLanes = kPanelLanes;

inline constexpr float kLog2E = 1.44269504f;

/// exp(x - largest), exactly 1 where they are equal, 0 below 2^-126. The polynomial's relative error is 1.5e-7.
[[gnu::always_inline]] inline Floats softmax_weight(Floats x, Floats largest) {
  const Floats round = broadcast(0x1.8p23f + 127);
  const Floats below = larger_of<float>(broadcast(-127 / kLog2E), x - largest);  // NaN stays
  const Floats shifted = below * kLog2E + round;  // the biased exponent of the result is in its low bits
  const Floats f = below * kLog2E - (shifted - round);
  Floats sum = broadcast(0x1.5c08e5p-10f);
  sum = sum * f + 0x1.3d0c53p-7f;
  sum = sum * f + 0x1.c6b6e5p-5f;
  sum = sum * f + 0x1.ebf917p-3f;
  sum = sum * f + 0x1.62e429p-1f;
  sum = sum * f + 1.0f;
  return sum * (Floats)((Ints<float>)shifted << Float<float>::kFraction);
}

/// Keys that lanes see: below `first` + lane and below `count`.
struct VisibleKeys {
  i64 first, count;

  i64 of_lane(i64 lane) const { return max_of<i64>(0, min_of(count, first + lane)); }
};

/// Scores of tiles of keys, -infinity where a lane does not see the key, and their largest ones. They are added to what
/// `scores` holds if has_bias.
[[gnu::noinline]] inline void multiply_keys(const float* keys, const float* queries, i64 head_size, VisibleKeys visible,
                                            bool has_bias, float* scores, Floats (&largest)[2]) {
  const i64 seen_by_all = visible.of_lane(0), seen = visible.of_lane(kQueryLanes - 1);
  Floats most[2] = {largest[0], largest[1]};
  for (i64 key = 0; key < seen; key += kTileRows, keys += kTileRows * head_size, scores += kTileRows * kQueryLanes) {
    Floats sum[kTileRows][2];
    multiply_panels<kTileRows>(keys, queries, head_size, sum, [](i64) {});
    if (has_bias) {
#pragma GCC unroll 16
      for (int r = 0; r < kTileRows; ++r)
#pragma GCC unroll 2
        for (int j = 0; j < 2; ++j) sum[r][j] += load(scores + r * kQueryLanes + j * kLanes<float>);
    }
    if (key + kTileRows > seen_by_all) {
#pragma GCC unroll 16
      for (int r = 0; r < kTileRows; ++r)
#pragma GCC unroll 2
        for (int j = 0; j < 2; ++j) {
          const Ints<float> lane = lane_numbers<float>() + j * kLanes<float>;
          const i64 least = key + r < visible.count ? max_of<i64>(key + r + 1 - visible.first, 0) : kQueryLanes;
          sum[r][j] = lane >= static_cast<std::int32_t>(least) ? sum[r][j] : broadcast(-__builtin_inff());
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; ++r)
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        store(scores + r * kQueryLanes + j * kLanes<float>, sum[r][j]);
        most[j] = larger_of<float>(most[j], sum[r][j]);
      }
  }
  largest[0] = most[0];
  largest[1] = most[1];
}

/// result = factor * result + tiles of values times weights.
template <int kRows>
void multiply_values(const float* values, i64 tile_elements, i64 tiles, const float* weights, i64 keys,
                     const Floats (&factor)[2], float* result) {
  for (i64 t = 0; t < tiles; ++t, values += tile_elements, result += kRows * kQueryLanes) {
    Floats sum[kRows][2];
    multiply_panels<kRows>(values, weights, keys, sum, [](i64) {});
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        float* const p = result + r * kQueryLanes + j * kLanes<float>;
        store(p, load(p) * factor[j] + sum[r][j]);
      }
  }
}

using MultiplyValues = void (*)(const float*, i64, i64, const float*, i64, const Floats (&)[2], float*);
template <int... kRow>
MultiplyValues values_kernel(int rows, std::integer_sequence<int, kRow...>) {
  static constexpr MultiplyValues kKernels[] = {multiply_values<kRow + 1>...};
  return kKernels[rows - 1];
}

template <class S>
class QueryBlockTask {
 public:
  QueryBlockTask(const QueryBlock& b, Arena& arena)
      : b_(b),
        panels_(ceil_div(b.queries, i64{kQueryLanes})),
        block_keys_(keys_of_block(b)),
        value_tiles_(static_cast<int>(ceil_div(b.head_size, i64{kTileRows}))),
        tile_rows_(static_cast<int>(b.head_size) / value_tiles_),
        higher_tiles_(static_cast<int>(b.head_size) % value_tiles_),
        queries_(arena.take<float>(panels_ * panel_elements())),
        results_(arena.take<float>(panels_ * panel_elements())),
        largest_(arena.take<Floats>(2 * panels_)),
        sums_(arena.take<Floats>(2 * panels_)),
        keys_(arena.take<float>(block_keys_ * b.head_size + kLanes<float>)),
        values_(arena.take<float>(block_keys_ * b.head_size + (value_tiles_ + 1) * kSpill)),
        scores_(arena.take<float>(block_keys_ * kQueryLanes)) {}

  float run() {
    for (i64 p = 0; p < panels_; ++p) begin(p);
    const i64 seen = min_of(b_.keys, b_.visible + b_.queries - 1);
    for (i64 key = 0; key < seen; key += block_keys_) {
      const i64 count = min_of(block_keys_, seen - key);
      pack_keys(key, count);
      pack_values(key, count);
      for (i64 p = 0; p < panels_; ++p) add(p, key, {b_.visible + p * kQueryLanes - key, count});
    }
    Floats most{};
    for (i64 p = 0; p < panels_; ++p) finish(p, most);
    float largest = 0;
    for (int i = 0; i < kLanes<float>; ++i) largest = max_of(largest, most[i]);
    return largest;
  }

 private:
  static constexpr int kN = kLanes<float>;
  static constexpr i64 kSpill = (kTileRows + kN - 1) / kN * kN;  // vectors that pack values end behind their tile

  /// Packed keys and values and the panels share the second-level cache; scores of a panel stay in the first-level one.
  static i64 keys_of_block(const QueryBlock& b) {
    constexpr i64 kMostElements = 32 * 1024, kMostKeys = 256;
    const i64 most = max_of<i64>(min_of(kMostKeys, kMostElements / b.head_size), kTileRows);
    return round_up(ceil_div(b.keys, ceil_div(b.keys, most)), kTileRows);
  }
  i64 panel_elements() const { return b_.head_size * kQueryLanes; }
  int lanes_of(i64 panel, int j) const {
    return static_cast<int>(max_of<i64>(0, min_of<i64>(kN, b_.queries - panel * kQueryLanes - j * kN)));
  }

  void begin(i64 panel) {
    float* const queries = queries_ + panel * panel_elements();
    float* const results = results_ + panel * panel_elements();
    for (int j = 0; j < 2; ++j) {
      const S* const from = static_cast<const S*>(b_.q) + (panel * kQueryLanes + j * kN) * b_.q_pitch;
      transpose_in(from, b_.q_pitch, lanes_of(panel, j), b_.head_size, queries + j * kN, kQueryLanes);
      largest_[2 * panel + j] = broadcast(-__builtin_inff());
      sums_[2 * panel + j] = Floats{};
    }
    for (i64 i = 0; i < panel_elements(); i += kN) {
      store(queries + i, load(queries + i) * b_.scale);
      store(results + i, Floats{});
    }
  }

  /// [tile][element][key]. Lanes beyond a tile are overwritten by what follows.
  void pack_keys(i64 first, i64 count) {
    const i64 pitch = b_.k_pitch, head_size = b_.head_size;
    const S* from = static_cast<const S*>(b_.k) + first * pitch;
    for (i64 key = 0; key < count; key += kTileRows, from += kTileRows * pitch) {
      prefetch_rows(from + kTileRows * pitch, pitch, min_of<i64>(kTileRows, count - key - kTileRows));
      for (int l = (kTileRows - 1) / kN * kN; l >= 0; l -= kN) {
        const int lanes = static_cast<int>(max_of<i64>(0, min_of<i64>(kN, count - key - l)));
        transpose_in(from + l * pitch, pitch, lanes, head_size, keys_ + key * head_size + l, kTileRows);
      }
    }
  }

  /// [tile][key][element]
  void pack_values(i64 first, i64 count) {
    const i64 pitch = b_.v_pitch, head_size = b_.head_size;
    const S* from = static_cast<const S*>(b_.v) + first * pitch;
    const int tiles = value_tiles_, lower = tile_rows_, higher_tiles = higher_tiles_;
    for (i64 key = 0; key < count; ++key, from += pitch) {
      if (key + kTileRows < count) prefetch_rows(from + kTileRows * pitch, pitch, 1);
      float* to = values_;
      i64 element = 0;
      for (int t = 0; t < tiles; ++t) {
        const int rows = lower + (t < higher_tiles);
        for (int i = 0; i < rows; i += kN) {
          const i64 rest = head_size - element - i;
          const S* const part = from + element + i;
          store(to + key * rows + i, rest >= kN ? load_widened(part) : load_widened(part, static_cast<int>(rest)));
        }
        to += rows * count + kSpill;
        element += rows;
      }
    }
  }

  void prefetch_rows(const S* row, i64 pitch, i64 rows) const {
    constexpr i64 kLine = 64 / sizeof(S);
    for (i64 r = 0; r < rows; ++r, row += pitch)
      for (i64 i = 0; i < b_.head_size; i += kLine) __builtin_prefetch(row + i);
  }

  void add(i64 panel, i64 first_key, VisibleKeys visible) {
    const i64 seen = visible.of_lane(kQueryLanes - 1);
    if (seen == 0) return;
    Floats largest[2] = {largest_[2 * panel], largest_[2 * panel + 1]}, shift[2], factor[2], sum[2] = {};
    for (int j = 0; j < 2 && b_.bias != nullptr; ++j)
      transpose_in(b_.bias + (panel * kQueryLanes + j * kN) * b_.bias_pitch + first_key, b_.bias_pitch,
                   lanes_of(panel, j), seen, scores_ + j * kN, kQueryLanes);
    multiply_keys(keys_, queries_ + panel * panel_elements(), b_.head_size, visible, b_.bias != nullptr, scores_,
                  largest);
    for (int j = 0; j < 2; ++j) {
      shift[j] = largest[j] == -__builtin_inff() ? Floats{} : largest[j];  // no key has a weight so far
      factor[j] = softmax_weight(largest_[2 * panel + j], shift[j]);
      largest_[2 * panel + j] = largest[j];
    }
    for (float* row = scores_; row < scores_ + seen * kQueryLanes; row += kQueryLanes) {
      const Floats low = softmax_weight(load(row), shift[0]), high = softmax_weight(load(row + kN), shift[1]);
      sum[0] += low;
      sum[1] += high;
      store(row, low);
      store(row + kN, high);
    }
    for (int j = 0; j < 2; ++j) sums_[2 * panel + j] = sums_[2 * panel + j] * factor[j] + sum[j];

    const float* values = values_;
    float* results = results_ + panel * panel_elements();
    for (const bool higher : {true, false}) {
      const int rows = tile_rows_ + higher, tiles = higher ? higher_tiles_ : value_tiles_ - higher_tiles_;
      const i64 tile_elements = rows * visible.count + kSpill;
      if (tiles > 0)
        values_kernel(rows, std::make_integer_sequence<int, kTileRows>{})(values, tile_elements, tiles, scores_, seen,
                                                                          factor, results);
      values += tiles * tile_elements;
      results += tiles * rows * kQueryLanes;
    }
  }

  void finish(i64 panel, Floats& most) {
    float* const results = results_ + panel * panel_elements();
    for (int j = 0; j < 2; ++j) {
      const int lanes = lanes_of(panel, j);
      if (lanes == 0) continue;
      const i64 query = panel * kQueryLanes + j * kN;
      const Floats inverse = 1 / sums_[2 * panel + j];
      store_lanes(b_.largest + query, largest_[2 * panel + j], lanes);
      store_lanes(b_.inverse_sum + query, inverse, lanes);
      const Floats factor = lane_numbers<float>() < lanes ? inverse * b_.factor : Floats{};
      for (i64 i = j * kN; i < panel_elements(); i += kQueryLanes) {
        const Floats v = load(results + i) * factor;
        most = larger_of<float>(absolute<float>(v), most);
        store(results + i, v);
      }
      transpose_out(results + j * kN, kQueryLanes, static_cast<S*>(b_.o) + query * b_.o_pitch, b_.o_pitch, lanes,
                    b_.head_size, {b_.result_scale, 0});
    }
  }

  const QueryBlock& b_;
  const i64 panels_, block_keys_;
  const int value_tiles_, tile_rows_, higher_tiles_;  // of values; higher tiles, the first, have a row more
  float *queries_, *results_;                         // [panel][element][lane]
  Floats *largest_, *sums_;                           // [panel][2]
  float *keys_, *values_, *scores_;
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
