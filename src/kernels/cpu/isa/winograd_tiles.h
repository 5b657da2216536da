// What the Winograd kernels share: blocks of tiles, walked in runs, and the transform of their pixels.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/winograd.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

inline constexpr int kN = kLanes<float>;
inline constexpr int kPanelVectors = 2, kPanel = kPanelVectors * kN;
inline constexpr i64 kRun = 16;  // tiles that are transformed together

/// An odd number of cache lines: what lies so far apart is in different cache sets.
static inline i64 spread_out(i64 floats) {
  constexpr i64 kLine = 16;
  return (round_up(floats, kLine) / kLine | 1) * kLine;
}

/// Neighbouring tiles of one row of tiles; `first` counts from the start of a block.
struct TileRun {
  i64 image, row, column, count, first;
};

template <class Visit>
static inline void for_runs(const WinogradTiles& job, i64 begin, i64 end, const Visit& visit) {
  const i64 wide = job.across(2), high = job.across(1);
  for (i64 t = begin; t < end;) {
    const i64 column = t % wide, line = t / wide;
    const i64 count = min_of(min_of(kRun, wide - column), end - t);
    visit(TileRun{line / high, line % high, column, count, t - begin});
    t += count;
  }
}

/// Transforms the pixels of a run, in place in one dimension, then into planes of points.
template <int kTile>
static inline void spread_run(float* strip, i64 count, float* v, i64 tile) {
  constexpr int kAlpha = kTile + 2;
  const i64 columns = count * kTile + 2;
  Floats d[kAlpha], out[kAlpha];
  for (i64 q = 0; q < columns; ++q) {
#pragma GCC unroll 8
    for (int i = 0; i < kAlpha; ++i) d[i] = load(strip + (i * columns + q) * kN);
    spread_input<kTile>(d, out);
#pragma GCC unroll 8
    for (int i = 0; i < kAlpha; ++i) store(strip + (i * columns + q) * kN, out[i]);
  }
  for (i64 t = 0; t < count; ++t, v += tile) {
    for (int i = 0; i < kAlpha; ++i) {
      const float* from = strip + (i * columns + t * kTile) * kN;
#pragma GCC unroll 8
      for (int j = 0; j < kAlpha; ++j) d[j] = load(from + j * kN);
      spread_input<kTile>(d, out);
#pragma GCC unroll 8
      for (int j = 0; j < kAlpha; ++j) store(v + (i * kAlpha + j) * kN, out[j]);
    }
  }
}

template <class Use>
static inline void with_type(DataType type, const Use& use) {
  if (type == DataType::kHalf) return use(Half{});
  if (type == DataType::kBFloat16) return use(Bfloat16{});
  use(float{});
}

template <class T>
static inline Image<T> image_of(T* data, const i64 (&size)[kSpatial], const i64 (&stride)[kSpatial], i64 channel, i64 channels) {
  return {data, {size[1], size[2]}, {stride[1], stride[2]}, channel, static_cast<int>(min_of<i64>(kN, channels))};
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
