// How ConvHopper computes a convolution: the kernel template, its tensor maps and arguments, as a pure function of the
// problem and the tune point. A program depends on direction, types, tile, schedule and epilogue, never on sizes.
// SPDX-License-Identifier: MIT
#pragma once
#include <vector>

#include "base/math.h"
#include "core/solver.h"
#include "kernels/gpu/sm90/conv_shape.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution::cuda {

/// What a step of the products sums over, 128 bytes: of 16 bits, of any type of operands. For a gradient of the weights
/// it is pixels, else channels.
constexpr int kHopperDepth = 64;
inline int hopper_depth(DataType t) { return 128 / static_cast<int>(size_of(t)); }
inline std::int64_t hopper_steps(std::int64_t channels, int depth = kHopperDepth) {
  return ceil_div(channels, std::int64_t{depth});
}

inline std::int64_t hopper_taps(const Problem& p) { return p.w.count() / p.w.lens[0] / p.w.lens[1]; }

/// Whether the kernels run on the device.
Verdict hopper_runs_on(const DeviceInfo&);

/// Whether the kernels serve the problem; the device is not asked.
Verdict hopper_serves(const Problem&);

/// Whether forward or backward data writes a tensor whose channels are not innermost.
bool hopper_writes_planes(const Problem&);

/// Whether tensor maps can describe the tensor: channels innermost, rows aligned to 16 bytes.
Verdict hopper_addresses(const TensorDesc&);

/// Backward data: whether weights that are contiguous along output channels are copied with their channels swapped, as
/// fp32 and 8 bits need it, or are multiplied as they are.
inline bool hopper_swaps_weights(const Problem& p) {
  return p.direction == Direction::kBackwardData && size_of(p.w.type) != 2;
}
inline bool hopper_transposes_weights(const Problem& p) {
  return p.direction == Direction::kBackwardData && !hopper_swaps_weights(p);
}

/// A tile of the product and how the two consumer warpgroups of a block share the work.
struct HopperTile {
  int row_blocks;  // of 64 rows, of a consumer
  int columns;
  int stages;
  bool apart;  // consumers have tiles (forward, backward data) or steps (weights) of their own, else half the rows each
  constexpr int rows() const { return 64 * row_blocks * (apart ? 1 : 2); }
  /// Columns that one store writes, of results of `size` bytes.
  constexpr int slab_columns(int size) const {
    return (columns * size % 128 == 0 ? 128 : columns * size % 64 == 0 ? 64 : 32) / size;
  }
  /// Rows of 128 bytes of a stage. Transposed weights are in boxes of 64 columns.
  constexpr int stage_rows(bool transposed) const { return rows() + (transposed ? (columns + 63) / 64 * 64 : columns); }
  /// Whether the blocks of a cluster can share a tile: each has registers to add up, and all sums pass through the
  /// stages.
  constexpr bool can_split(int blocks, bool transposed) const {
    return blocks == 1 || (!apart && row_blocks * columns / 8 % blocks == 0 &&
                           rows() * columns * 4 <= stages * stage_rows(transposed) * 128);
  }
};

// The tiles that tuning chooses from. A tile of 128x256 and its like have the least traffic; tiles apart hide the store
// of one behind the products of the other.
inline constexpr HopperTile kProductTiles[] = {
    {1, 256, 4, false}, {2, 128, 4, false}, {2, 192, 3, false}, {1, 192, 4, false}, {1, 128, 6, false},
    {2, 128, 6, true},  {2, 192, 4, true},  {1, 256, 4, true},  {2, 160, 3, false}, {2, 160, 5, true},
    {1, 64, 8, false},  {1, 128, 8, true},  {2, 64, 8, true},   {2, 96, 4, false}};
inline constexpr HopperTile kWeightTiles[] = {
    {1, 256, 4, false}, {1, 192, 5, false}, {2, 128, 4, false}, {1, 128, 6, false}, {1, 192, 6, true}};

/// Forward and backward data.
struct HopperProduct {
  static constexpr int kMaxPhases = 9;  // of one program for strided backward data
  HopperTile tile{};
  int split = 1;  // blocks of a cluster that share a tile
  bool one_phase = true;
  kernels::ConvProductShape shape{};
  std::vector<kernels::ConvPhase> phases;
  TensorMapSpec weights;
  std::vector<TensorMapSpec> src, dst;   // of each phase
  TensorMapSpec half_weights, half_src;  // if the shape has halves
  std::vector<std::int64_t> dst_at;      // element of the first output pixel of each phase
};
HopperProduct hopper_product(const DeviceInfo&, const Problem&, const TunePoint&);

/// Shared memory of a block of ConvProduct, whose results have so many bytes.
int hopper_shared_bytes(const Problem&, const HopperTile&, int split, std::size_t result);

/// Forward and backward data with unit strides from tiles with their halo.
struct HopperHalo {
  // In shared memory, by the bytes of an element: tiles, taps of weights. Results of fp32 take longer to store.
  static constexpr int halos(std::size_t size) { return size == 2 ? 3 : 4; }
  static constexpr int stages(std::size_t size) { return size == 2 ? 9 : 5; }
  int columns = 0;  // of the product; 0: no tile fits
  int blocks = 0;
  kernels::ConvHaloShape shape{};
  TensorMapSpec weights, src, dst;
  TensorMapSpec half_weights, half_src;  // of half a step, if the last channels are no more; else of rank 0
};
HopperHalo hopper_halo(const Problem&);  // without what depends on the device: blocks, whether weights stay
HopperHalo hopper_halo(const DeviceInfo&, const Problem&);

/// Backward weights with unit strides and a filter of at most 3x3, or 4x1, from tiles with their halo.
struct HopperHaloWeights {
  static constexpr int kStages = 3;
  int pixels = 0;  // of a tile; 0: no tile fits
  kernels::ConvHaloWeightsShape shape{};
  TensorMapSpec x, dy;
};
HopperHaloWeights hopper_halo_weights(const DeviceInfo&, const Problem&);

/// Whether a point takes its tiles with their halo; a point that does, which need not be valid.
bool hopper_has_halo(const Problem&, const TunePoint&);
TunePoint hopper_halo_point(Direction);

/// Backward weights.
struct HopperWeights {
  HopperTile tile{};
  kernels::ConvWeightsShape shape{};
  TensorMapSpec x, dy;
  int blocks = 0;
  std::int64_t partials = 0, sums = 0;  // elements of fp32 in the workspace: of parts, of blocks
};
HopperWeights hopper_weights(const DeviceInfo&, const Problem&, const TunePoint&);

TuneSpace hopper_space(const Problem&);
bool hopper_takes(const DeviceInfo&, const Problem&, const TunePoint&);
TunePoint hopper_default(const DeviceInfo&, const Problem&);

/// Microseconds.
double hopper_estimate(const DeviceInfo&, const Problem&, const TunePoint&);

}  // namespace polymio::convolution::cuda
