// ConvGpuDirectWrw: the gradient of the weights from tiles of both tensors in local memory, the one with its halo. For
// few channels on one side, whose matrix product has few rows or columns.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>

#include "base/math.h"
#include "core/kernel_builder.h"
#include "primitives/convolution/convolution.h"
#include "primitives/convolution/gpu/direct_problem.h"

namespace polymio::convolution {
namespace {

using gpu::narrow;

constexpr std::int64_t kThreads = gpu::kDirectThreads, kRun = gpu::kDirectRun, kResident = 2;  // as in the kernel
constexpr std::int64_t kMostRowTaps = 16, kPartTaps = 8;  // of a line; of one that is a part of a row
constexpr std::int64_t kMostRegisters = 68;               // of a thread for sums and a pixel of each output
constexpr std::int64_t kMostBytes = 128 << 20;            // of partial sums
constexpr std::int64_t kMostTiles = 1 << 29;

enum Knobs { kOutputs, kLines };

double real(std::int64_t v) { return static_cast<double>(v); }

/// Whether x and dy change places, so that the one with more channels is not copied with a halo.
bool mirrors(const Problem& p) {
  return p.k() < p.c() && std::ranges::all_of(p.geometry.stride, [](auto v) { return v == 1; });
}

/// A problem's shape, its tile with the least estimated time, and what the program and its launch need.
struct WeightsPlan : gpu::DirectProblem {
  kernels::DirectTile tile{};
  kernels::DirectSums sums{};
  std::int64_t outputs, lines, row_taps = 0, local_floats = 0;
  bool vectors = false, fits = false;
  double cycles = 0;  // of a multiprocessor

  WeightsPlan(const DeviceInfo& d, const Problem& p, const TunePoint& point)
      : DirectProblem(p, mirrors(p)),
        outputs(point[kOutputs]),
        lines(point[kLines]),
        units_(std::max(d.units, 1)),
        most_(gpu::most_direct_floats(d)) {
    const auto& s = shape;
    vectors = has_vectors(outputs);
    row_taps = s.dilation[0] > 1 ? 0 : s.taps[0] <= kMostRowTaps ? s.taps[0] : s.stride[0] == 1 ? kPartTaps : 0;
    const std::int64_t row_lines = ceil_div(s.taps[0], step()), slice_lines = row_lines * s.taps[1],
                       channel_lines = slice_lines * s.taps[2];
    sums.count = narrow(p.w.count());
    sums.lines = narrow(channel_lines * s.channels);
    sums.by_row = gpu::divider(row_lines);
    sums.by_slice = gpu::divider(slice_lines);
    sums.by_channel = gpu::divider(channel_lines);
    const std::int64_t output_groups = ceil_div(s.outputs, outputs), line_groups = ceil_div(sums.lines, lines);
    for (std::int64_t tiles = 1;; tiles *= 2) {
      const std::int64_t of_block = ceil_div(output_groups, tiles);
      if (of_block > kThreads) continue;
      const std::int64_t line_tiles = ceil_div(line_groups, std::min(line_groups, kThreads / of_block));
      choose_tile(output_groups, of_block, line_groups, ceil_div(line_groups, line_tiles));
      if (of_block == 1 || line_tiles == 1) break;
    }
    if (!fits) return;
    tile.by_halo_h = gpu::divider(tile.halo[1]);
    tile.by_halo_d = gpu::divider(tile.halo[2]);
    tile.by_chunk = gpu::divider(tile.chunk);
    sums.by_units = gpu::divider(units());
    sums.by_outputs = gpu::divider(sums.output_groups);
    const std::int64_t width = sums.output_groups * outputs;  // of results that are copied with channels last
    sums.by_width = gpu::divider(vectors && result_is_last() ? width / kRun : width);
    local_floats = gpu::direct_floats(d, local_floats);
  }

  std::int64_t step() const { return std::max<std::int64_t>(row_taps, 1); }
  std::int64_t blocks() const { return parts() * sums.splits; }

 private:
  std::int64_t units_, most_;

  std::int64_t units() const { return std::int64_t{sums.output_groups} * sums.line_groups; }
  std::int64_t parts() const { return std::int64_t{sums.output_tiles} * sums.line_tiles; }

  /// Replaces `tile` and `sums` where a block of so many groups takes less time.
  void choose_tile(std::int64_t all_outputs, std::int64_t of_outputs, std::int64_t all_lines, std::int64_t of_lines) {
    constexpr int kLeastLog = 5, kMostLog = 11;  // of pixels
    kernels::DirectSums m = sums;
    m.output_groups = narrow(of_outputs);
    m.output_tiles = narrow(ceil_div(all_outputs, of_outputs));
    m.line_groups = narrow(of_lines);
    m.line_tiles = narrow(ceil_div(all_lines, of_lines));
    m.pixel_groups = narrow(kThreads / (of_outputs * of_lines));
    for (int log = kLeastLog; log <= kMostLog; ++log)
      for (int w = 2; w <= log; ++w)
        for (int h = 0; w + h <= log; ++h) {
          kernels::DirectTile t{};
          const bool is_useful = set_sides(t, {w, h, log - w - h});
          if ((is_useful || !fits) && count(t) <= kMostTiles) consider(t, m);
        }
  }

  /// Channels of a block with so many lines.
  std::int64_t channels_of(std::int64_t of_block, bool all) const {
    const std::int64_t of_channel = sums.by_channel.divisor;
    const std::int64_t most = of_block % of_channel == 0 ? of_block / of_channel : (of_block - 1) / of_channel + 2;
    return all ? shape.channels : std::min<std::int64_t>(shape.channels, most);
  }

  void consider(kernels::DirectTile t, kernels::DirectSums m) {
    const auto& s = shape;
    const int log = t.log[0] + t.log[1] + t.log[2];
    const std::int64_t pixels = std::int64_t{1} << log, width = m.output_groups * outputs;
    const std::int64_t last_part = ceil_div(s.taps[0], step()) * step() - step();  // one if strides are
    const std::int64_t phase = std::max(
        ceil_div(t.halo[0], s.stride[0]),
        row_taps == 0 ? 0 : (std::int64_t{1} << t.log[0]) + last_part + round_up((step() - 1) / s.stride[0], kRun));
    t.phase = narrow(round_up(phase, kRun));
    t.chunk = narrow(channels_of(m.line_groups * lines, m.line_tiles == 1));
    set_lanes(t);
    m.pitch = narrow((result_is_last() ? round_up(width, kRun) : pixels) + kRun);
    const std::int64_t results = (result_is_last() ? pixels : width) * m.pitch;
    const std::int64_t staged = kThreads * (lines * step() | 1);
    m.all_tiles = narrow(count(t));
    const std::int64_t parts = std::int64_t{m.output_tiles} * m.line_tiles;
    const std::int64_t most_splits =
        std::max<std::int64_t>(1, std::min<std::int64_t>(m.all_tiles, kMostBytes / (4 * std::int64_t{m.count})));
    m.splits = narrow(std::clamp<std::int64_t>(kResident * units_ / parts, 1, most_splits));
    m.splits = narrow(ceil_div(m.all_tiles, ceil_div(m.all_tiles, m.splits)));
    if (staged > most_ || (fits && cycles_of(t, m, 1) >= cycles)) return;
    // Distances of rows and channels with the fewest bank conflicts.
    const std::int64_t least = std::int64_t{t.phase} * s.stride[0];
    std::int64_t fewest = 0, floats = 0;
    for (std::int64_t row = least; row < least + 4 * kRun && fewest != 1; row += kRun) {
      const std::int64_t slice = row * t.halo[1], size = plane_of(slice * t.halo[2]);
      for (std::int64_t plane = size; plane < size + (source_is_last() ? kRun : 8 * kRun); plane += kRun) {
        const std::int64_t needed = t.chunk * plane + results;
        if (needed > most_) break;
        kernels::DirectTile found = t;
        found.row = narrow(row);
        found.slice = narrow(slice);
        found.plane = narrow(plane);
        const std::int64_t users = conflicts(found, m);
        if (fewest > 0 && users >= fewest) continue;
        fewest = users;
        floats = needed;
        t = found;
      }
    }
    if (fewest == 0) return;
    const double time = cycles_of(t, m, real(fewest));
    if (fits && time >= cycles) return;
    fits = true;
    cycles = time;
    tile = t;
    sums = m;
    local_floats = std::max(floats, staged);
  }

  /// How many of the first eight threads load other 16 bytes of the same banks.
  std::int64_t conflicts(const kernels::DirectTile& t, const kernels::DirectSums& m) const {
    constexpr std::size_t kThreadsOfAccess = 8;
    const auto& s = shape;
    std::array<std::array<std::int64_t, kThreadsOfAccess>, kThreadsOfAccess> users{};
    std::array<std::size_t, kThreadsOfAccess> counts{};
    const std::int64_t units = std::int64_t{m.output_groups} * m.line_groups;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(kThreadsOfAccess); ++i) {
      const std::int64_t run = i / units, line = i % units / m.output_groups, of_channel = line % m.by_channel.divisor;
      const std::int64_t row = of_channel / m.by_row.divisor, log = t.log[0] - 2, runs = run >> log;
      const std::int64_t at = line / m.by_channel.divisor * t.plane +
                              (row / s.taps[1] * s.dilation[2] + (runs >> t.log[1]) * s.stride[2]) * t.slice +
                              (row % s.taps[1] * s.dilation[1] + (runs & ((1 << t.log[1]) - 1)) * s.stride[1]) * t.row +
                              of_channel % m.by_row.divisor * step() / s.stride[0] + (run & ((1 << log) - 1)) * kRun;
      const auto bank = static_cast<std::size_t>(at / kRun) % kThreadsOfAccess;
      const auto end = users[bank].begin() + static_cast<std::ptrdiff_t>(counts[bank]);
      if (std::find(users[bank].begin(), end, at) == end) users[bank][counts[bank]++] = at;
    }
    return static_cast<std::int64_t>(*std::ranges::max_element(counts));
  }

  /// Of all blocks, on one multiprocessor: arithmetic and loads from local memory overlap.
  double cycles_of(const kernels::DirectTile& t, const kernels::DirectSums& m, double conflict) const {
    constexpr double kSchedulers = 4, kWarps = 8, kLanes = 32, kLoad = 3, kLoop = 30, kCopy = 17, kResultCopy = 25,
                     kRow = 25, kWait = 1500, kBytes = 20;
    constexpr double kPass = 100, kSum = 40, kAdd = 3;
    const auto& s = shape;
    const bool last = result_is_last();
    const int log = t.log[0] + t.log[1] + t.log[2];
    const double runs = real(std::int64_t{1} << (log - 2));
    double windows = row_taps > 0 ? 0 : real(kRun * lines);
    for (std::int64_t q = 0; row_taps > 0 && q < std::min<std::int64_t>(s.stride[0], step()); ++q)
      windows += real(lines * ceil_div(kRun + (step() - 1 - q) / s.stride[0], kRun)) * conflict;
    const bool scalars = row_taps == 0 || (last && outputs % kRun != 0);
    const double loads = windows + real(outputs * (scalars ? kRun : 1));
    const double issue = real(kRun * outputs * lines * step()) + loads + kLoop * (row_taps == 0 ? kRun : 1);
    const double products =
        std::ceil(runs / real(m.pixel_groups)) * kWarps * std::max(issue / kSchedulers, loads * kLoad);
    const double rows = real(std::int64_t{t.halo[1]} * t.halo[2]), source = rows * real(t.halo[0]) * real(t.chunk);
    const double results = runs * kRun * real(m.output_groups * outputs);
    const double copies = (source * kCopy + results * kResultCopy / (vectors ? kRun : 1)) / kLanes +
                          rows * real(source_is_last() ? 1 : t.chunk) * real(1 << t.lanes_log) / kLanes * kRow;
    const double busy = std::max(products + copies / kSchedulers, 4 * (source + results) / kBytes);
    const double passes =
        real(outputs) * (kPass + real(ceil_div(m.output_groups * m.line_groups * lines * step(), kThreads)) * kWarps /
                                     kSchedulers * (kSum + kAdd * real(m.pixel_groups)));
    const std::int64_t parts = std::int64_t{m.output_tiles} * m.line_tiles, blocks = ceil_div(parts * m.splits, units_),
                       tiles = ceil_div(m.all_tiles, m.splits);
    return real(blocks) * (real(tiles) * busy + passes) + real(ceil_div(blocks, kResident) * tiles) * kWait;
  }
};

class GpuDirectWeights final : public GpuSolver<Problem> {
 public:
  explicit GpuDirectWeights(const SolverInfo& info) : GpuSolver(info) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    POLYMIO_REQUIRE(p.direction == Direction::kBackwardWeights, "serves another direction");
    if (const Verdict v = gpu::check_direct(d, p, mirrors(p), false); !v) return v;
    POLYMIO_REQUIRE_MOST(p.w.count(), kMostBytes / 4, "elements of w");
    POLYMIO_REQUIRE(WeightsPlan(d, p, smallest(p)).fits,
                    "the smallest tile exceeds local memory or the tiles of a launch");
    return {};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    constexpr double kLaunchesUs = 6, kMemory = 0.7, kArithmetic = 0.85;
    const double megahertz = d.fp32_gflops * 1e3 / (256.0 * std::max(d.units, 1));
    const double bytes_per_us = 1e3 * std::max(d.bandwidth_gbs, 1.0) * kMemory;
    const WeightsPlan plan(d, p, point);
    return kLaunchesUs + 8 * real(std::int64_t{plan.sums.splits} * plan.sums.count) / bytes_per_us +
           std::max(plan.cycles / (megahertz * kArithmetic), gpu::tensor_bytes(p) / bytes_per_us);
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override {
    return {{"outputs", {8, 4, 2, 1}}, {"lines", {2, 1, 4}}};
  }
  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    if (point.size() != 2) return false;
    const int outputs = point[kOutputs], lines = point[kLines];
    if (outputs != 1 && outputs != 2 && outputs != 4 && outputs != 8) return false;
    if (lines != 1 && lines != 2 && lines != 4) return false;
    // Idle sums, or fewer than the registers hold where there are enough outputs.
    const std::int64_t all = std::int64_t{mirrors(p) ? p.c() : p.k()};
    if (outputs < smallest(p)[kOutputs] || (outputs > 1 && outputs >= 2 * all)) return false;
    const WeightsPlan plan(d, p, point);
    return plan.fits && outputs * (lines * plan.step() + 1) <= kMostRegisters &&
           (lines == 1 || lines <= plan.sums.lines);
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    return least_estimate(*this, d, p, valid_points(*this, d, p));
  }

  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const WeightsPlan plan(d, p, point);
    return gpu::sum_bytes(std::int64_t{plan.sums.splits} * plan.sums.count);
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const WeightsPlan plan(d, p, point);
    std::vector<std::string> options = {fmt::format("-DIN={}", name_of(p.x.type)),
                                        fmt::format("-DOUT={}", name_of(p.x.type))};
    const auto add = [&](const char* what, std::int64_t value) {
      options.push_back(fmt::format("-D{}={}", what, value));
    };
    add("SRC_LAST", plan.source_is_last());
    add("DST_LAST", plan.result_is_last());
    add("TAPS_W", plan.row_taps);
    add("STRIDE_W", plan.shape.stride[0]);
    add("OUTPUTS", plan.outputs);
    add("LINES", plan.lines);
    add("VECTORS", plan.vectors);
    if (!gpu::sizes_local_memory(d)) add("LOCAL_FLOATS", plan.local_floats);
    return gpu::kernel_variants("primitives/convolution/gpu/direct_weights.cl", "direct_weights", std::move(options),
                                true, plan.vectors);
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint& point, const Kernels& built) const override {
    const WeightsPlan plan(d, p, point);
    Launch where = launch_shape(kThreads, plan.blocks());
    if (gpu::sizes_local_memory(d)) where.shared_bytes = static_cast<std::uint32_t>(plan.local_floats * 4);
    return [=, mirrored = mirrors(p), vectors = plan.vectors, shape = plan.shape, tile = plan.tile,
            weights = plan.weights, sums = plan.sums](Stream& stream, const Args& a) {
      const std::size_t first = vectors && !gpu::aligned(a) ? 2 : 0;
      const Buffer workspace(a.workspace);
      launch(stream, *built[first], where, Buffer(mirrored ? a.y : a.x), Buffer(mirrored ? a.x : a.y), workspace, shape,
             tile, weights, sums);
      gpu::add_partials(stream, *built[first + 1], {workspace, Buffer(a.w), sums.count, sums.splits},
                        static_cast<float>(a.alpha), static_cast<float>(a.beta));
    };
  }

 private:
  /// The point with the fewest sums that is valid wherever it fits.
  static TunePoint smallest(const Problem& p) {
    const std::int64_t all = mirrors(p) ? p.c() : p.k();
    return {all > 2 ? 4 : static_cast<int>(all), 1};
  }
};

}  // namespace

std::unique_ptr<const SolverBase> gpu_direct_weights(const SolverInfo& info, Direction) {
  return std::make_unique<GpuDirectWeights>(info);
}

}  // namespace polymio::convolution
