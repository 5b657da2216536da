// Cost model of direct convolutions: register tiles, copies of the input and of dy, packing of weights, stores that
// transpose, and weights that every piece reads again. Cycles (see Machine) are fitted to the machine of cost.cc; their
// ratios matter. tests/convolution/estimates_test.cc pins five problems that other solvers must win.
// SPDX-License-Identifier: MIT
#include "primitives/convolution/cpu/direct_cost.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/amx_steps.h"

namespace polymio::convolution {
namespace {

using kernels::ConvShape;
using kernels::Direct;
using kernels::DirectGradient;
using kernels::DirectMath;
using kernels::DirectWindow;
using kernels::kSpatial;

constexpr double kPieceCycles = 200;    // set-up of a piece: offsets, cold code
constexpr double kLineCycles = 160;     // set-up of a line of outputs: its input addresses
constexpr double kRowCycles = 80;       // the same for a row that is copied
constexpr double kTapCycles = 6;        // the address of one run of input of a line or a tile
constexpr double kTileCycles = 25;      // set-up of a register tile
constexpr double kStoreCycles = 3;      // storing a vector of sums, including a load of the earlier value
constexpr double kPixelCycles = 6;      // set-up of a run of contiguous channels
constexpr double kVectorCycles = 2.5;   // copying a vector
constexpr double kTransposeCycles = 8;  // transposing, per vector
constexpr double kPackCycles = 2;       // moving a transposed vector of weights from a buffer to its panel
constexpr double k16BitFactor = 1.5;    // copies of 16-bit types, which convert, over those of fp32
constexpr double kElementCycles = 1;    // copying a single element
constexpr double kSliceCycles = 0.4;    // adding the partial sums of one slice, per element
constexpr double kCacheBytes = 24;      // bytes per cycle from the second-level cache
constexpr double kLineBytes = 64;       // a cache line

double real(std::int64_t v) { return static_cast<double>(v); }
double bytes_of(DataType type) { return static_cast<double>(size_of(type)); }

/// Element type, and strides of channels and pixels in elements.
struct Layout {
  DataType type;
  std::int64_t channel, pixel;
  /// Contiguous elements of channels x pixels.
  double run(double channels, double pixels) const { return channel == 1 ? channels : pixel == 1 ? pixels : 1; }
};

/// Cycles of transposing lines of `length` elements, in whole squares of lanes x lanes.
double transpose_cycles(double lanes, double lines, double length) {
  return ceil_ratio(lines, lanes) * ceil_ratio(length, lanes) * lanes * kTransposeCycles;
}

/// Cycles of copying channels x pixels from a layout to NHWC, or back.
double move_cycles(double lanes, double channels, double pixels, const Layout& from, bool transposes = true) {
  const double type_factor = size_of(from.type) == 2 ? k16BitFactor : 1;
  if (from.channel == 1 || channels == 1)
    return type_factor * pixels * (kPixelCycles + ceil_ratio(channels, lanes) * kVectorCycles);
  if (transposes && from.pixel <= 2) return type_factor * transpose_cycles(lanes, channels, pixels);
  return type_factor * channels * pixels * kElementCycles;
}

/// Fraction of a padded input tile that is not padding.
double input_share(const Direct& job) {
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
  return rows * (splits * kRowCycles + input_share(job) * row);
}

/// Memory traffic of a padded input tile, read row by row, in effective bytes.
double input_tile_bytes(const Direct& job) {
  const double share = input_share(job), size = bytes_of(job.from.type), channels = real(job.from.channels);
  const double columns = share * real(job.input_tile.size[2]),
               rows = real(job.input_tile.size[0] * job.input_tile.size[1]);
  const Layout layout{job.from.type, job.from.c, job.from.d[2]};
  return effective_bytes(real(job.cut.images) * rows * columns * channels * size, size * layout.run(channels, columns));
}

/// Taps of one dimension that are not in the padding, summed over all outputs.
double taps_in_input(const Direct& job, int d) {
  double sum = 0;
  const std::int64_t step = job.input_step(d), size = job.from.size[d];
  for (std::int64_t phase = 0; phase < job.phases[d]; ++phase) {
    const DirectWindow w = direct_window(job, d, phase);
    for (std::int64_t t = 0; t < w.taps; ++t) {
      const std::int64_t start = w.origin + t * w.move;
      const std::int64_t first = start < 0 ? (step - 1 - start) / step : 0;
      const std::int64_t end = start < size ? (size - 1 - start) / step + 1 : 0;
      sum += real(std::max<std::int64_t>(std::min(end, w.cells) - first, 0));
    }
  }
  return sum;
}

/// Fraction of the products that are computed: with job.edges, columns of taps in the padding are skipped.
double tap_column_share(const Direct& job) {
  if (!job.edges) return 1;
  double all = 0;
  for (std::int64_t phase = 0; phase < job.phases[2]; ++phase) {
    const DirectWindow w = direct_window(job, 2, phase);
    all += real(w.cells * w.taps);
  }
  return taps_in_input(job, 2) / all;
}

/// Cycles of packing all weights of a group: squares of lanes x contiguous taps or channels are transposed.
double pack_cycles(const Direct& job) {
  const double lanes = real(job.unit.lanes), channels = real(job.from.channels), taps = real(job.taps());
  double transpose = taps * channels * kVectorCycles;  // lanes are contiguous: no transpose
  if (job.w_lane != 1 && job.w_depth == 1) transpose = taps * transpose_cycles(lanes, lanes, channels);
  if (job.w_lane != 1 && job.w_depth == job.taps()) transpose = transpose_cycles(lanes, lanes, taps * channels);
  if (job.w_lane != 1 && job.w_depth > job.taps()) transpose = channels * transpose_cycles(lanes, lanes, taps);
  return real(job.vectors) * (transpose + taps * channels * kPackCycles);
}

/// Memory traffic of packing the weights, in effective bytes.
double weight_bytes(const Direct& job) {
  const double size = bytes_of(job.weight_type), channels = real(job.from.channels), taps = real(job.taps());
  const double depth = channels / real(job.diagonal_groups);  // nonzero depths per lane
  const double run = job.w_lane == 1 ? real(job.unit.lanes) : job.w_depth == 1 ? depth : taps;
  return effective_bytes(taps * depth * real(job.to.channels) * size, size * run);
}

/// Cycles of all register tiles of a line of `outputs`: per depth step, and once.
struct Tiles {
  double step = 0, once = 0;
  Tiles(const Direct& job, double outputs, std::int64_t vectors, std::int64_t depth) {
    const double v = real(vectors), count = ceil_ratio(outputs, job.unit.rows[vectors]);
    const double rows = std::floor(outputs / count), taller = outputs - rows * count;
    const double bytes = row_bytes(job, static_cast<std::int64_t>(outputs));
    const auto cycles = [&](double r) { return tile_cycles(job.unit, r, v, depth, bytes); };
    step = taller * cycles(rows + 1) + (count - taller) * cycles(rows);
    once = count * kTileCycles + outputs * v * kStoreCycles;
  }
};

/// Effective bytes of writing results in runs of `run` bytes; partial cache lines are read first.
double result_bytes(double bytes, double run) {
  return effective_bytes((std::fmod(run, kLineBytes) == 0 ? 1 : 2) * bytes, run);
}

}  // namespace

double tile_cycles(const kernels::DirectUnit& unit, double rows, double vectors, std::int64_t depth, double row_bytes) {
  const double bytes = vectors * real(unit.lanes * unit.lane_bytes());  // weights
  const std::int64_t steps = unit.amx ? kernels::amx_steps(depth) : 0;
  if (steps == 0) return std::max(Machine::tile_step(rows, vectors), bytes / kCacheBytes);
  // AMX on a Xeon, model 207 (docs/kernels/overview.md): rows of a tile register, cycles to load one; a product takes a
  // cycle per row, at least kMinCycles, and has a latency of kLatency.
  constexpr double kRegister = 16, kLoad = 8, kMinCycles = 9, kLatency = 52;
  const double registers = rows > 2 * kRegister ? 4 : ceil_ratio(rows, kRegister);
  const double cycles =
      std::max({std::max(rows, kMinCycles * registers) * vectors, (registers + vectors) * kLoad, kLatency});
  return std::max(cycles / real(steps), (bytes + rows * row_bytes) / kCacheBytes);
}

double row_bytes(const Direct& job, std::int64_t line) {
  constexpr std::int64_t kFirstLevel = 24 << 10;  // bytes of input that stay in the first-level cache beside weights
  const std::int64_t pixel = job.from.channels * job.unit.element;
  return job.taps() * line * job.input_step(2) * pixel <= kFirstLevel * job.shape.taps[2] ? 0
                                                                                          : 4 / real(job.shape.taps[2]);
}

Work direct_work(const Direct& job, const Machine& m) {
  const double groups = real(job.shape.groups), fold = real(job.cut.fold), lanes = real(job.unit.lanes);
  const double blocks = ceil_ratio(real(job.from.channels), real(job.cut.channels));
  const double parts = ceil_ratio(real(job.cells[2]), real(job.cut.columns));
  const double images = ceil_ratio(real(job.shape.n), fold) * parts;
  const double lines = images * real(job.to.size[0] * job.to.size[1]);
  const double tap_rows = images * taps_in_input(job, 0) * taps_in_input(job, 1);  // over all lines
  const Layout to{job.to.type, job.to.c, job.to.d[2]};
  const double tap_columns = tap_column_share(job);
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
      multiply += tap_rows * (tap_columns * tiles.step * depth + blocks * taps * kTapCycles);
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
  const double weights = real(static_cast<std::int64_t>(job.packed_bytes())) / groups / panels;  // bytes per piece
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
  const double used_taps = taps_in_input(x, 0) / real(s.out[0]) * taps_in_input(x, 1) / real(s.out[1]);
  const double runs = x.merged ? 1 : real(s.taps[2]), run = real(s.taps[2]) / runs * real(g.c_block);
  const double rows = transposed ? run : channels;
  // The kernel's cut of lanes into panels.
  const auto vectors = static_cast<std::int64_t>(ceil_ratio(transposed ? channels : run, lanes));
  const std::int64_t most = vectors % 3 == 0 && !x.unit.amx ? 3 : 2, panels = (vectors + most - 1) / most;
  double multiply = tap_rows * kLineCycles;
  for (std::int64_t p = 0; p < panels; ++p) {
    const std::int64_t v = vectors * (p + 1) / panels - vectors * p / panels;
    const double tiles = ceil_ratio(rows, x.unit.rows[v]), tile_rows = rows / tiles;
    const double cycles =
        x.unit.amx ? tile_cycles(x.unit, tile_rows, real(v), x.cut.columns) : Machine::tile_step(tile_rows, real(v));
    const double step = used_taps * (outputs * cycles + lines * kTapCycles);
    multiply += runs * tiles * (step + tap_rows * (kTileCycles + tile_rows * real(v) * kStoreCycles));
  }
  const Layout dy{g.dy.type, g.dy.c, g.dy.d[2]};
  double copy = lines * move_cycles(lanes, channels, columns, dy);
  if (!transposed && dy.channel != 1 && dy.pixel == 1)
    copy = lines * channels * run_cycles(m, g.dy.type, columns, 1, false);
  if (dy.channel == 1 && g.transposed_row == g.k_block && size_of(g.dy.type) > 2) copy = 0;  // read in place
  const double steps = real(g.steps * g.blocks()), weights = real(g.blocks()) * channels;
  const double results = weights * real(g.k_row);
  Work work;
  work.pieces = real(g.pieces());
  work.cycles = steps * (multiply + copy + input_tile_cycles(x)) + work.pieces * kPieceCycles +
                weights * move_cycles(lanes, real(g.c_block), real(x.taps()), {x.to.type, s.w_c, s.w_d[2]}) +
                results * real(g.slices) * (kSliceCycles + (transposed ? kElementCycles : 0));
  work.largest = work.cycles / work.pieces;
  const double size = bytes_of(g.dy.type), gradients = outputs * channels * size;
  work.bytes = steps * (input_tile_bytes(x) + effective_bytes(gradients, size * dy.run(channels, columns))) +
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
