// Shared by the Winograd kernels: the runs of a block of tiles, and the transform of their pixels.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/winograd_transforms.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

inline constexpr int kN = kLanes<float>;
inline constexpr int kPanelVectors = 2, kPanel = kPanelVectors * kN;
inline constexpr i64 kRun = 16;  // tiles per run, at least a band

/// The most tiles per run.
static inline i64 run_tiles(const WinogradTiles& job) {
  return min_of(max_of<i64>(kRun / job.band(), 1) * job.band(), job.across(2));
}

/// Pixels of one row that `tiles` tiles of a run read for `parts` adjacent parts of the filter.
static inline i64 tile_row_columns(const WinogradTiles& job, i64 tiles, i64 parts) {
  return tiles * job.tile + (parts * job.taps - 1) * job.band();
}

/// Floats of a run's input pixels as vectors of channels; the columns of its tiles overlap.
static inline i64 tile_row_floats(const WinogradTiles& job) {
  return (job.tile + job.taps - 1) * tile_row_columns(job, run_tiles(job), job.parts(2)) * kN;
}

/// Rounds up to an odd number of cache lines: neighbours at this distance map to different cache sets.
static inline i64 pad_to_odd_lines(i64 floats) {
  constexpr i64 kLine = 16;
  return (round_up(floats, kLine) / kLine | 1) * kLine;
}

/// Adjacent tiles of one row of tiles, whole bands, from pixel (plane, row, column) of the output; `first` is the index
/// of the first tile in the block.
struct TileRun {
  i64 image, plane, row, column, count, first;
};

/// Calls visit(run) for the runs of tiles [begin, end).
template <class Visit>
static inline void for_runs(const WinogradTiles& job, i64 begin, i64 end, const Visit& visit) {
  const i64 row_tiles = job.across(2), tile_rows = job.across(1), max_tiles = run_tiles(job),
            dilation = job.shape.dilation[1];
  for (i64 t = begin; t < end;) {
    const i64 column = t % row_tiles, line = t / row_tiles, tile_row = line % tile_rows;
    const i64 count = min_of(min_of(max_tiles, row_tiles - column), end - t);
    const i64 slab = line / tile_rows, plane = slab % job.slabs() * job.planes;
    const i64 row = tile_row / dilation * dilation * job.tile + tile_row % dilation;
    visit(TileRun{slab / job.slabs(), plane, row, column * job.tile, count, t - begin});
    t += count;
  }
}

/// Calls visit(tile, first column of its pixels) for `count` tiles of a run.
template <class Visit>
static inline void for_tiles(const WinogradTiles& job, i64 count, const Visit& visit) {
  const i64 band = job.band(), tile = job.tile;
  for (i64 t = 0; t < count; t += band) {
    for (i64 i = 0; i < band; ++i) visit(t + i, t * tile + i);
  }
}

/// Destination of transformed pixels.
struct Points {
  float* data;
  i64 tile, part;  // floats between tiles, between parts of a row of the filter
};

/// Transforms the pixels of a run: in place along dimension 1, then along dimension 2 into the points of each tile, for
/// each of `parts` parts.
template <int kAlpha>
static inline void transform_input_run(const WinogradTiles& job, float* tile_row, i64 count, i64 parts, Points v) {
  const i64 columns = tile_row_columns(job, count, parts), band = job.band();
  Floats d[kAlpha], out[kAlpha];
  for (i64 q = 0; q < columns; ++q) {
#pragma GCC unroll 8
    for (int i = 0; i < kAlpha; ++i) d[i] = load(tile_row + (i * columns + q) * kN);
    transform_input_tile<kAlpha>(d, out);
#pragma GCC unroll 8
    for (int i = 0; i < kAlpha; ++i) store(tile_row + (i * columns + q) * kN, out[i]);
  }
  for (i64 part = 0; part < parts; ++part, tile_row += job.part_step(2) * kN, v.data += v.part) {
    for_tiles(job, count, [&](i64 t, i64 first) {
      float* to = v.data + t * v.tile;
      for (int i = 0; i < kAlpha; ++i, to += kAlpha * kN) {
        const float* from = tile_row + (i * columns + first) * kN;
#pragma GCC unroll 8
        for (int j = 0; j < kAlpha; ++j) d[j] = load(from + j * band * kN);
        transform_input_tile<kAlpha>(d, out);
#pragma GCC unroll 8
        for (int j = 0; j < kAlpha; ++j) store(to + j * kN, out[j]);
      }
    });
  }
}

template <class Use>
static inline void with_type(DataType type, const Use& use) {
  if (type == DataType::kHalf) return use(Half{});
  if (type == DataType::kBFloat16) return use(Bfloat16{});
  use(float{});
}

template <class T>
static inline Image<T> image_of(T* data, const i64 (&size)[kSpatial], const i64 (&stride)[kSpatial], i64 channel,
                                i64 channels) {
  return {data, {size[1], size[2]}, {stride[1], stride[2]}, channel, static_cast<int>(min_of<i64>(kN, channels))};
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
