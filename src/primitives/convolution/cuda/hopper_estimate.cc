// Times of ConvHopper's plans by a model: products, loads and stores of a tile, and memory.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "primitives/convolution/cuda/hopper_plan.h"

namespace polymio::convolution::cuda {
namespace {

double real(std::int64_t v) { return static_cast<double>(v); }

/// What is computed and what is read from memory overlap, but not all of it.
double overlapped(double computed, double read) {
  const double a = computed * computed, b = read * read;
  return std::sqrt(std::sqrt(a * a + b * b));
}

/// Microseconds in which memory moves the tensors at a share of its bandwidth. Strides may leave out pixels of x.
double memory_us(const DeviceInfo& d, const Problem& p, double share) {
  auto x = static_cast<double>(p.x.bytes());
  for (int i = 0; i < p.spatial() && p.direction != Direction::kBackwardData; ++i)
    x *= std::min(1.0, real(p.filter(i)) / real(p.geometry.stride[static_cast<std::size_t>(i)]));
  return (x + static_cast<double>(p.w.bytes() + p.y.bytes())) / (1e3 * d.bandwidth_gbs * share);
}

/// Constants of forward and backward data, fitted to times on an H100, of TF32 on an H200.
namespace product {
constexpr double kGhz = 1.37, kTf32Ghz = 1.65, kInt8Ghz = 1.6, kStartUs = 1.8, kHaloStartUs = 3.2, kMemory = 0.8;
constexpr double kFlop = 8192 / 2;   // per clock
constexpr double kL2Bytes = 61;      // per clock
constexpr double kStore = 0.035;     // clocks per byte of a tile
constexpr double kSplitStore = 3.4;  // times as much, if blocks add their sums
constexpr double kSplitUs = 1.6, kSwapUs = 2;
constexpr double kAddClocks = 70;                      // beside one for each sum that is added to others
constexpr double kNarrow = 1.77;                       // times the clocks of products: fewer than 96 columns
constexpr double kHalfLoads = 0.82;                    // of the loads of a step: a half, on an H200
constexpr double kApart = 1.02;                        // tiles apart
constexpr double kHalfBox = 1.4;                       // tiles apart that use half of a box of transposed weights
constexpr double kPartialBox = 2;                      // more time for boxes of which some channels do not exist
constexpr double kOrder = 1.03, kOrderStrided = 0.98;  // channels innermost
constexpr double kSlices = 1.08;                       // tiles with halo of several slices
constexpr double kHaloWeights = 1.06;                  // on an H200: tiles with halo whose weights do not stay
constexpr double kStridedPixel = 3.9;                  // clocks for a pixel of a tile with halo, and each skipped
constexpr double kHaloFlop = 8192 / 1.92, kHaloStore = 0.0075, kTf32HaloStore = 0.036, kHaloL2Bytes = 50;
}  // namespace product

double product_ghz(const Problem& p) {
  return p.w.type == DataType::kFloat  ? product::kTf32Ghz
         : p.w.type == DataType::kInt8 ? product::kInt8Ghz
                                       : product::kGhz;
}

double halo_us(const DeviceInfo& d, const Problem& p) {
  const HopperHalo plan = hopper_halo(d, p);
  const auto& s = plan.shape;
  const int depth = hopper_depth(p.x.type);
  const double taps = s.taps[0] * s.taps[1] * s.taps[2], blocks = real(hopper_steps(s.reduced, depth));
  const double used = real(round_up(s.reduced, depth / 2)) / (blocks * depth);  // of the depth of a step
  const double products =
      2.0 * 64 * plan.columns * kHopperDepth * used / product::kHaloFlop * (s.taps[2] > 1 ? product::kSlices : 1);
  const int halos = std::min(s.step[0], s.taps[0]) * std::min(s.step[1], s.taps[1]);
  const double weights = s.resident ? 0 : 64 * 128, halo = real(s.box_bytes) * halos / (s.taps[0] * s.taps[1]);
  const double pixels = halo / 128 * product::kStridedPixel * (s.step[0] - 1);
  const double loads = std::max((weights + halo) * used / product::kHaloL2Bytes, pixels);
  const bool tf32 = p.x.type == DataType::kFloat;  // stores in two parts, which other tiles wait for
  const double tile = blocks * taps * std::max(products, loads),
               store = tf32 ? product::kTf32HaloStore * 256 * plan.columns : product::kHaloStore * 128 * plan.columns;
  const double own = tf32 ? tile + store : std::max(tile, (tile + store) / 2);
  const double clocks =
      (real(ceil_div(s.tiles, plan.blocks)) * own + store) * (s.resident || tf32 ? 1 : product::kHaloWeights);
  return product::kHaloStartUs + overlapped(clocks / (1e3 * product_ghz(p)), memory_us(d, p, product::kMemory));
}

double product_us(const DeviceInfo& d, const Problem& p, const TunePoint& point) {
  if (hopper_has_halo(p, point)) return halo_us(d, p);
  const HopperProduct plan = hopper_product(d, p, point);
  const HopperTile& tile = plan.tile;
  const bool split = plan.split > 1, transposed = hopper_transposes_weights(p);
  const bool data = p.direction == Direction::kBackwardData;
  const double elements = real(tile.rows()) * tile.columns;
  // A step takes as long in every type: of TF32, half the channels at half the rate.
  const bool adds = is_fp8(p.w.type) && tile.apart;  // while the matrix unit waits
  const double products =
      2 * elements * kHopperDepth / product::kFlop * (tile.columns < 96 && !adds ? product::kNarrow : 1) +
      (adds ? tile.row_blocks * (tile.columns / 2.0 + product::kAddClocks) : 0);
  const double loads = tile.stage_rows(transposed) * 128 / product::kL2Bytes;
  const bool half_box = transposed && tile.apart && tile.columns % 64 != 0;
  const bool strided = !data && std::ranges::any_of(plan.phases.front().step, [](int step) { return step > 1; });
  const int depth = hopper_depth(p.w.type);
  const std::int64_t blocks = hopper_steps(plan.shape.reduced, depth);
  // The last step of a tap: a half multiplies half as much, but loads nearly as long.
  const bool halves = plan.shape.halves;
  const double whole = std::max(products, loads),
               last = halves ? std::max(products / 2, loads * product::kHalfLoads) : whole,
               partial = plan.shape.reduced % (halves ? depth / 2 : depth) != 0 ? product::kPartialBox : 0;
  const double of_tap = whole * (real(blocks) - 1) + last + whole * partial;
  const double step = of_tap / real(blocks) * (half_box ? product::kHalfBox : 1) *
                      (plan.shape.taps_innermost ? 1
                       : strided                 ? product::kOrderStrided
                                                 : product::kOrder);
  const double store =
      product::kStore * elements * static_cast<double>(std::max<std::size_t>(2, size_of(p.output().type)));
  // Larger clusters do not fill all parts of the device.
  const int units = plan.split < 4 ? d.units : d.units * 10 / 11;
  // Blocks take every units-th tile, long phases first: the first block has the most work.
  double clocks = tile.apart ? store : 0;
  std::int64_t first = 0;
  for (const kernels::ConvPhase& phase : plan.phases) {
    const std::int64_t taps = std::int64_t{phase.taps[0]} * phase.taps[1] * phase.taps[2];
    const std::int64_t steps = std::max<std::int64_t>(1, ceil_div(taps * blocks, std::int64_t{plan.split}));
    const double all = real(steps) * step;
    const double own = tile.apart ? std::max(all, (all + store) / 2) * product::kApart
                                  : all + store * (split ? product::kSplitStore : 1);
    const std::int64_t tiles = std::int64_t{phase.row_tiles} * plan.shape.column_tiles * plan.split;
    clocks += own * real(ceil_div(first + tiles, std::int64_t{units}) - ceil_div(first, std::int64_t{units}));
    first += tiles;
  }
  return product::kStartUs + (split ? product::kSplitUs : 0) +
         overlapped(clocks / (1e3 * product_ghz(p)), memory_us(d, p, product::kMemory));
}

double swap_us(const DeviceInfo& d, const Problem& p) {
  if (!hopper_swaps_weights(p)) return 0;
  return product::kSwapUs + 2 * real(p.w.bytes()) / (1e3 * d.bandwidth_gbs * product::kMemory);
}

/// Constants of the gradient of the weights, likewise.
namespace weights {
constexpr double kGhz = 1.76, kStartUs = 4.3, kHaloStartUs = 6.3, kMemory = 0.875;
constexpr double kFlop = 8192 / 2 / 1.1;  // per clock
constexpr double kTf32Flop = 2048 / 1.84, kTf32HaloFlop = 2048 / 2.1;
constexpr double kSharedBytes = 116;             // per clock, of shared memory
constexpr double kL2Bytes = 93, kNewBytes = 46;  // per clock; of pixels that no other block reads at the time
constexpr double kPartialBox = 0.7;              // more time for boxes of which some channels do not exist
constexpr double kStore = 0.062;                 // clocks per element of a tile
constexpr double kSumBytes = 41;                 // per clock, of sums that a block writes or adds
constexpr double kClearUs = 1.5, kAddUs = 1.1;   // launches
constexpr double kPartBytes = 4.15e6;            // per microsecond
}  // namespace weights

double add_partials_us(std::int64_t parts, std::int64_t elements) {
  return parts > 1 ? weights::kAddUs + 8.0 * real(parts * elements) / weights::kPartBytes : 0;
}

double halo_weights_us(const DeviceInfo& d, const Problem& p) {
  const HopperHaloWeights plan = hopper_halo_weights(d, p);
  const auto& s = plan.shape;
  const double taps = real(p.filter(0)) * real(p.filter(1));
  const bool tf32 = p.x.type == DataType::kFloat;
  const double products = 2.0 * 64 * 64 * taps * plan.pixels / (tf32 ? weights::kTf32HaloFlop : weights::kFlop),
               loads = (tf32 ? 2 : 1) * (s.box_bytes + s.tile_w * s.tile_h * 128) / weights::kL2Bytes;
  const double work = real(ceil_div(s.tiles, s.parts)) * std::max(products, loads) + weights::kStore * 64 * 64 * taps;
  const double computed = real(ceil_div(s.works, d.units)) * work / (1e3 * weights::kGhz);
  return weights::kHaloStartUs + overlapped(computed, memory_us(d, p, weights::kMemory)) +
         add_partials_us(s.parts, p.w.count());
}

double weights_us(const DeviceInfo& d, const Problem& p, const TunePoint& point) {
  if (hopper_has_halo(p, point)) return halo_weights_us(d, p);
  const HopperWeights plan = hopper_weights(d, p, point);
  const HopperTile& tile = plan.tile;
  const auto& s = plan.shape;
  const std::int64_t tiles = p.groups() * s.row_tiles * s.column_tiles,
                     rounds = ceil_div(tiles, std::int64_t{s.group_blocks});
  const double elements = real(tile.rows()) * tile.columns;
  // Of a step: products; operands in shared memory; loads of what exists.
  const bool tf32 = p.x.type == DataType::kFloat;
  const double products = 2 * elements * hopper_depth(p.x.type) / (tf32 ? weights::kTf32Flop : weights::kFlop);
  const int consumers = tile.apart ? 1 : 2;
  // Of TF32, each of four warps reads its rows and columns (warp_tile.cuh).
  const int across = tile.columns == 256 * tile.row_blocks ? 4 : 2;
  const int read =
      tf32 ? tile.row_blocks * 64 * across + tile.columns * (4 / across) : tile.row_blocks * (64 + tile.columns);
  const double shared = (consumers * read + tile.rows() + tile.columns) * 128 / weights::kSharedBytes;
  const double outputs = real(hopper_steps(s.outputs)) * 64, channels = real(hopper_steps(s.channels)) * 64;
  double taps = 1, steps = 1;
  for (int i = 0; i < p.spatial(); ++i) {
    taps *= s.taps[i];
    if (s.taps[i] > 1) steps *= s.step[i];
  }
  const double row_boxes = real(hopper_steps(s.outputs)) / s.row_tiles,
               column_boxes = taps * real(hopper_steps(s.channels)) / s.column_tiles;
  const double partial = (s.outputs % 64 ? 1.0 / s.row_tiles : 0) + (s.channels % 64 ? taps / s.column_tiles : 0);
  const double loaded = (row_boxes + column_boxes) * 64 * 128;
  const double groups = real(p.groups());
  const double group = std::min(groups * outputs, real(s.group_blocks) * tile.rows()) +
                       std::min(groups * channels * steps, real(s.group_blocks) * tile.columns);
  const double loads =
      loaded / weights::kL2Bytes + s.groups * group * 128 / std::min<double>(plan.blocks, d.units) / weights::kNewBytes;
  const double ends = s.has_parts ? 1 : std::max(1.0, std::ceil(real(rounds) / s.groups));
  double clocks = real(ceil_div(rounds * s.steps, std::int64_t{s.groups})) * std::max({products, shared, loads}) *
                      (1 + weights::kPartialBox * partial / (row_boxes + column_boxes)) +
                  weights::kStore * elements * ends * (s.has_parts ? 2 : 1);
  const double sum = 4 * elements / weights::kSumBytes;
  double after = 0;
  if (s.has_parts) {
    after = add_partials_us(s.groups, p.w.count());
  } else if (s.groups > 1) {
    clocks += (std::ceil(s.groups / real(rounds)) + 1) * sum;
    after = weights::kClearUs;
  }
  if (tile.apart) clocks += 2 * sum * ends;
  const double computed = real(ceil_div(plan.blocks, d.units)) * clocks / (1e3 * weights::kGhz);
  return weights::kStartUs + overlapped(computed, memory_us(d, p, weights::kMemory)) + after;
}

}  // namespace

double hopper_estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) {
  return p.direction == Direction::kBackwardWeights ? weights_us(d, p, point) : product_us(d, p, point) + swap_us(d, p);
}

TunePoint hopper_default(const DeviceInfo& d, const Problem& p) {
  TunePoint best;
  double least = 0;
  const TuneSpace space = hopper_space(p);
  for (const int tile : space[0].values)
    for (const int split : space[1].values)
      for (const int order : space.size() > 2 ? space[2].values : std::vector<int>{0}) {
        TunePoint point = {tile, split};
        if (space.size() > 2) point.push_back(order);
        if (!hopper_takes(d, p, point)) continue;
        const double us = hopper_estimate(d, p, point);
        if (!best.empty() && us >= least) continue;
        best = point;
        least = us;
      }
  return best;
}

}  // namespace polymio::convolution::cuda
