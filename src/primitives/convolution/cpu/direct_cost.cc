// Register tiles, and what surrounds them: copies of the input and of the gradients, packed weights, sums that change
// their layout, and weights that pass through the cache once for each piece. Costs in cycles as in cost.cc.
// SPDX-License-Identifier: MIT
#include "primitives/convolution/cpu/direct_cost.h"

#include <algorithm>
#include <cmath>

namespace polymio::convolution {
namespace {

using kernels::ConvShape;
using kernels::Direct;
using kernels::DirectGradient;
using kernels::DirectMath;
using kernels::DirectWindow;
using kernels::kSpatial;

constexpr double kPieceCycles = 200;   // set-up of a piece: offsets, cold code
constexpr double kLineCycles = 160;    // finding what a line of outputs reads
constexpr double kRowCycles = 80;      // the same for a row that is copied
constexpr double kTapCycles = 6;       // finding one run of input that a line or a tile reads
constexpr double kTileCycles = 25;     // set-up of a register tile
constexpr double kSumCycles = 3;       // a vector of sums that a tile writes, and maybe reads before
constexpr double kPixelCycles = 6;     // the start of a run of neighbouring channels
constexpr double kVectorCycles = 2.5;  // a vector that is copied
constexpr double kTurnCycles = 8;      // a vector of a square that is transposed
constexpr double kPutCycles = 2;       // a transposed vector of weights, from a buffer to its place
constexpr double kNarrow = 1.5;        // copies of 16-bit types take so much longer: they are widened or rounded
constexpr double kElementCycles = 1;   // an element that is copied on its own
constexpr double kScaleCycles = 0.4;   // an element of a slice that is added to the others
constexpr double kCacheBytes = 24;     // what the second-level cache gives in a cycle
constexpr double kLineBytes = 64;      // of the caches

double real(std::int64_t v) { return static_cast<double>(v); }
double bytes_of(DataType type) { return static_cast<double>(size_of(type)); }

/// Elements of a layout: type, strides of channels and of pixels.
struct Layout {
  DataType type;
  std::int64_t channel, pixel;
  double run(double channels, double pixels) const { return channel == 1 ? channels : pixel == 1 ? pixels : 1; }
};

/// Transposing lines of `length` elements. Squares are as wide as a vector, whatever of them is there.
double transpose_cycles(double lanes, double lines, double length) {
  return ceil_ratio(lines, lanes) * ceil_ratio(length, lanes) * lanes * kTurnCycles;
}

/// Copying channels x pixels from a layout to one with channels innermost, or back.
double move_cycles(double lanes, double channels, double pixels, const Layout& from, bool transposes = true) {
  const double slow = size_of(from.type) == 2 ? kNarrow : 1;
  if (from.channel == 1 || channels == 1)
    return slow * pixels * (kPixelCycles + ceil_ratio(channels, lanes) * kVectorCycles);
  if (transposes && from.pixel <= 2) return slow * transpose_cycles(lanes, channels, pixels);
  return slow * channels * pixels * kElementCycles;
}

/// The part of a strip that lies in the input; the rest is padding.
double inside(const Direct& job) {
  double part = 1;
  for (int d = 0; d < kSpatial; ++d)
    part *= std::min(1.0, real(job.from.size[d]) / real(job.input_tile.size[d] * job.grain[d]));
  return part;
}

double input_tile_cycles(const Direct& job) {
  if (job.in_place) return 0;
  const std::int64_t step = job.input_tile.split * job.grain[2];
  const bool transposes = step == 1 || job.unit.group == 1;
  const double rows = real(job.cut.images * job.input_tile.size[0] * job.input_tile.size[1]),
               splits = real(job.input_tile.split);
  const double operands = ceil_ratio(real(job.from.channels), real(job.unit.group));
  const double row = splits * move_cycles(real(job.unit.lanes), operands, real(job.input_tile.size[2]) / splits,
                                          {job.from.type, job.from.c, job.from.d[2] * step}, transposes);
  return rows * (splits * kRowCycles + inside(job) * row);
}

/// What a strip takes from memory, row by row.
double input_tile_bytes(const Direct& job) {
  const double part = inside(job), size = bytes_of(job.from.type), channels = real(job.from.channels);
  const double columns = part * real(job.input_tile.size[2]),
               rows = real(job.input_tile.size[0] * job.input_tile.size[1]);
  const Layout layout{job.from.type, job.from.c, job.from.d[2]};
  return jump_bytes(real(job.cut.images) * rows * columns * channels * size, size * layout.run(channels, columns));
}

/// Taps of one dimension that read input rather than padding, summed over all outputs.
double reaching_taps(const Direct& job, int d) {
  double sum = 0;
  const std::int64_t step = job.input_step(d), size = job.from.size[d];
  for (std::int64_t phase = 0; phase < job.phases[d]; ++phase) {
    const DirectWindow w = direct_window(job, d, phase);
    for (std::int64_t t = 0; t < w.taps; ++t) {
      const std::int64_t at = w.origin + t * w.move;
      const std::int64_t first = at < 0 ? (step - 1 - at) / step : 0, end = at < size ? (size - 1 - at) / step + 1 : 0;
      sum += real(std::max<std::int64_t>(std::min(end, w.cells) - first, 0));
    }
  }
  return sum;
}

/// Of the products with columns of taps, how many are done: those in the padding may be left out.
double share_across(const Direct& job) {
  if (!job.edges) return 1;
  double all = 0;
  for (std::int64_t phase = 0; phase < job.phases[2]; ++phase) {
    const DirectWindow w = direct_window(job, 2, phase);
    all += real(w.cells * w.taps);
  }
  return reaching_taps(job, 2) / all;
}

/// Packing all weights of a group: squares of lanes and what lies together, taps or channels.
double pack_cycles(const Direct& job) {
  const double lanes = real(job.unit.lanes), channels = real(job.from.channels), taps = real(job.taps());
  double transpose = taps * channels * kVectorCycles;  // the lanes are neighbours
  if (job.w_lane != 1 && job.w_depth == 1) transpose = taps * transpose_cycles(lanes, lanes, channels);
  if (job.w_lane != 1 && job.w_depth == job.taps()) transpose = transpose_cycles(lanes, lanes, taps * channels);
  if (job.w_lane != 1 && job.w_depth > job.taps()) transpose = channels * transpose_cycles(lanes, lanes, taps);
  return real(job.vectors) * (transpose + taps * channels * kPutCycles);
}

/// What packing takes from memory.
double weight_bytes(const Direct& job) {
  const double size = bytes_of(job.weight_type), channels = real(job.from.channels), taps = real(job.taps());
  const double depth = channels / real(job.diagonal_groups);  // of a lane
  const double run = job.w_lane == 1 ? real(job.unit.lanes) : job.w_depth == 1 ? depth : taps;
  return jump_bytes(taps * depth * real(job.to.channels) * size, size * run);
}

/// Tiles of `outputs` neighbours: one of `depth` steps, and all else.
struct Tiles {
  double step = 0, once = 0;
  Tiles(const Direct& job, double outputs, std::int64_t vectors, std::int64_t depth) {
    const double v = real(vectors), count = ceil_ratio(outputs, job.unit.rows[vectors]);
    const double low = std::floor(outputs / count), higher = outputs - low * count;
    const double bytes = row_bytes(job, static_cast<std::int64_t>(outputs));
    const auto cycles = [&](double rows) { return tile_cycles(job.unit, rows, v, depth, bytes); };
    step = higher * cycles(low + 1) + (count - higher) * cycles(low);
    once = count * kTileCycles + outputs * v * kSumCycles;
  }
};

/// Results that lie in lines of `run` bytes; parts of the cache's lines are read first.
double result_bytes(double bytes, double run) {
  return jump_bytes((std::fmod(run, kLineBytes) == 0 ? 1 : 2) * bytes, run);
}

}  // namespace

double tile_cycles(const kernels::DirectUnit& unit, double rows, double vectors, std::int64_t depth, double row_bytes) {
  const double bytes = vectors * real(unit.lanes * unit.lane_bytes());  // of weights
  const std::int64_t steps = unit.amx ? kernels::amx_steps(depth) : 0;
  if (steps == 0) return std::max(Machine::tile_step(rows, vectors), bytes / kCacheBytes);
  // Rows of a tile register; cycles to load one, the least to multiply it, else one a row, and until it is done.
  constexpr double kRegister = 16, kLoad = 8, kLeast = 9, kLatency = 52;
  const double high = rows > 2 * kRegister ? 4 : ceil_ratio(rows, kRegister);
  const double cycles = std::max({std::max(rows, kLeast * high) * vectors, (high + vectors) * kLoad, kLatency});
  return std::max(cycles / real(steps), (bytes + rows * row_bytes) / kCacheBytes);
}

double row_bytes(const Direct& job, std::int64_t line) {
  constexpr std::int64_t kStays = 24 << 10;  // in the first-level cache, beside weights
  const std::int64_t pixel = job.from.channels * job.unit.element;
  return job.taps() * line * job.input_step(2) * pixel <= kStays * job.shape.taps[2] ? 0 : 4 / real(job.shape.taps[2]);
}

Work direct_work(const Direct& job, const Machine& m) {
  const double groups = real(job.shape.groups), fold = real(job.cut.fold), lanes = real(job.unit.lanes);
  const double blocks = ceil_ratio(real(job.from.channels), real(job.cut.channels));
  const double parts = ceil_ratio(real(job.cells[2]), real(job.cut.columns));
  const double images = ceil_ratio(real(job.shape.n), fold) * parts;
  const double lines = images * real(job.to.size[0] * job.to.size[1]);
  const double tap_rows = images * reaching_taps(job, 0) * reaching_taps(job, 1);  // that all lines add up
  const Layout to{job.to.type, job.to.c, job.to.d[2]};
  const double across = share_across(job);
  double multiply = 0;
  for (std::int64_t panel = 0; panel < job.panels; ++panel) {
    const std::int64_t start = job.panel_start(panel), vectors = job.panel_start(panel + 1) - start;
    const double channels = std::min(real(vectors) * lanes, real(job.to.channels) - real(start) * lanes);
    double outputs = 0;
    for (std::int64_t phase = 0; phase < job.phases[2]; ++phase) {
      const DirectWindow w = direct_window(job, 2, phase);
      const double cells = real(w.cells) / parts, taps = job.merged ? 1 : real(w.taps);
      const Tiles tiles(job, cells * fold, vectors, job.merged ? job.row_steps : job.tap_steps);
      const double depth = job.merged ? real(job.row_steps) : taps * real(job.tap_steps);
      multiply += tap_rows * (across * tiles.step * depth + blocks * taps * kTapCycles);
      multiply += lines * blocks * (kLineCycles + tiles.once);
      outputs += cells;
    }
    if (!job.sums_are_results()) multiply += lines * fold * move_cycles(lanes, channels, outputs, to);
  }
  Work work;
  work.pieces = real(job.pieces());
  const double panels = ceil_ratio(real(job.panels), real(job.cut.panels));
  const double packs = job.cut.packed ? 1 : work.pieces / panels / groups;
  work.cycles = groups * (multiply + packs * pack_cycles(job)) + work.pieces * (kPieceCycles + input_tile_cycles(job));
  work.largest = work.cycles / work.pieces;
  const double weights = real(static_cast<std::int64_t>(job.packed_bytes())) / groups / panels;  // that a piece reads
  const double size = bytes_of(job.to.type), columns = real(job.cut.columns * job.phases[2]);
  const double results =
      real(job.shape.n * job.to.size[0] * job.to.size[1] * job.to.size[2] * job.to.channels) * groups;
  work.bytes = work.pieces * (input_tile_bytes(job) + (m.fits_cache(weights) ? 0 : weights)) +
               groups * packs * weight_bytes(job) +
               result_bytes(results * size, size * to.run(real(job.to.channels), columns));
  return work;
}

Work gradient_work(const DirectGradient& g, const Machine& m) {
  const Direct& x = g.x;
  const ConvShape& s = x.shape;
  const bool transposed = g.transposed_row > 0;
  const double lanes = real(x.unit.lanes), lines = real(x.cut.images * x.cut.rows), columns = real(x.cut.columns);
  const double outputs = lines * columns, channels = real(g.k_block), tap_rows = real(s.taps[0] * s.taps[1]);
  const double reach = reaching_taps(x, 0) / real(s.out[0]) * reaching_taps(x, 1) / real(s.out[1]);
  const double runs = x.merged ? 1 : real(s.taps[2]), run = real(s.taps[2]) / runs * real(g.c_block);
  const double rows = transposed ? run : channels;
  // As the kernel cuts lanes into panels.
  const auto vectors = static_cast<std::int64_t>(ceil_ratio(transposed ? channels : run, lanes));
  const std::int64_t most = vectors % 3 == 0 && !x.unit.amx ? 3 : 2, panels = (vectors + most - 1) / most;
  double multiply = tap_rows * kLineCycles;
  for (std::int64_t p = 0; p < panels; ++p) {
    const std::int64_t v = vectors * (p + 1) / panels - vectors * p / panels;
    const double tiles = ceil_ratio(rows, x.unit.rows[v]), height = rows / tiles;
    const double cycles =
        x.unit.amx ? tile_cycles(x.unit, height, real(v), x.cut.columns) : Machine::tile_step(height, real(v));
    const double step = reach * (outputs * cycles + lines * kTapCycles);
    multiply += runs * tiles * (step + tap_rows * (kTileCycles + height * real(v) * kSumCycles));
  }
  const Layout dy{g.dy.type, g.dy.c, g.dy.d[2]};
  double copy = lines * move_cycles(lanes, channels, columns, dy);
  if (!transposed && dy.channel != 1 && dy.pixel == 1)
    copy = lines * channels * run_cycles(m, g.dy.type, columns, 1, false);
  if (dy.channel == 1 && g.transposed_row == g.k_block && size_of(g.dy.type) > 2) copy = 0;  // read as it lies
  const double steps = real(g.steps * g.blocks()), weights = real(g.blocks()) * channels;
  const double results = weights * real(g.k_row);
  Work work;
  work.pieces = real(g.pieces());
  work.cycles = steps * (multiply + copy + input_tile_cycles(x)) + work.pieces * kPieceCycles +
                weights * move_cycles(lanes, real(g.c_block), real(x.taps()), {x.to.type, s.w_c, s.w_d[2]}) +
                results * real(g.slices) * (kScaleCycles + (transposed ? kElementCycles : 0));
  work.largest = work.cycles / work.pieces;
  const double size = bytes_of(g.dy.type), gradients = outputs * channels * size;
  work.bytes = steps * (input_tile_bytes(x) + jump_bytes(gradients, size * dy.run(channels, columns))) +
               2 * real(static_cast<std::int64_t>(g.workspace())) + results * bytes_of(x.to.type);
  return work;
}

Verdict check_countable(const Problem& p) {
  constexpr std::int64_t kMostTaps = 1 << 12, kMostChannels = 1 << 20, kMostPositions = 1 << 30;
  POLYMIO_REQUIRE_MOST(std::max(p.c(), p.k()) / p.groups(), kMostChannels, "channels of a group");
  for (int i = 0; i < p.spatial(); ++i) {
    POLYMIO_REQUIRE_MOST(p.filter(i), kMostTaps, "taps in one dimension");
    POLYMIO_REQUIRE_MOST(p.geometry.stride[static_cast<std::size_t>(i)], kMostTaps, "stride");
  }
  POLYMIO_REQUIRE_MOST(p.x.count() / p.n() / p.c(), kMostPositions, "positions of x");
  POLYMIO_REQUIRE_MOST(p.y.count() / p.n() / p.k(), kMostPositions, "positions of y");
  return {};
}

}  // namespace polymio::convolution
