// ConvGpuDirect: direct convolution from tiles of the source with their halo in local memory. For few channels on one
// side, whose matrix product has little to sum or few columns. Backward data of stride 1 is the forward convolution
// with mirrored taps.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <memory>

#include "base/math.h"
#include "core/kernel_builder.h"
#include "primitives/convolution/convolution.h"
#include "primitives/convolution/gpu/direct_problem.h"

namespace polymio::convolution {
namespace {

using gpu::narrow;

// As in direct.cl.
constexpr std::int64_t kThreads = gpu::kDirectThreads, kRun = gpu::kDirectRun, kLanes = 32, kWarps = kThreads / kLanes;
constexpr std::int64_t kMostRowTaps = 9;  // of a row in registers
constexpr std::int64_t kMostBlocks = 1 << 30;

enum Knobs { kRuns, kOutputs };

double real(std::int64_t v) { return static_cast<double>(v); }

/// A problem's shape, its tile with the least estimated time, and what the program and its launch need.
struct Plan : gpu::DirectProblem {
  kernels::DirectTile tile{};
  std::int64_t runs, outputs;
  bool vectors = false, fits = false;
  std::int64_t row_taps = 0, local_floats = 0, blocks = 0;
  double cycles = 0;  // of a multiprocessor

  Plan(const DeviceInfo& d, const Problem& p, const TunePoint& point)
      : DirectProblem(p, p.direction == Direction::kBackwardData),
        runs(point[kRuns]),
        outputs(point[kOutputs]),
        units_(std::max(d.units, 1)) {
    row_taps = shape.dilation[0] == 1 && shape.taps[0] <= kMostRowTaps ? shape.taps[0] : 0;
    vectors = has_vectors(outputs);
    const std::int64_t most = gpu::most_direct_floats(d);
    for (std::int64_t warps = 1; warps == 1 || (warps <= kWarps && warps * outputs < 2 * shape.outputs); warps *= 2)
      choose_tile(warps, most);
    if (!fits) return;
    auto& t = tile;
    t.by_halo_h = gpu::divider(t.halo[1]);
    t.by_halo_d = gpu::divider(t.halo[2]);
    t.by_chunk = gpu::divider(t.chunk);
    const std::int64_t width = t.output_warps * outputs;
    weights.by_inner = gpu::divider(weights.order == 0 ? taps : weights.order == 1 ? t.chunk : width);
    weights.by_middle = gpu::divider(weights.order == 0 ? t.chunk : taps);
    weights.pitch = narrow(pitch_of(width));
    local_floats = gpu::direct_floats(d, local_floats);
  }

  /// Blocks whose registers fit a multiprocessor.
  std::int64_t resident() const { return runs == 1 && outputs <= 4 ? 3 : 2; }

 private:
  std::int64_t units_;

  /// Copies of neighbouring taps or channels go to other banks.
  std::int64_t pitch_of(std::int64_t width) const { return round_up(width + (weights.order == 2 ? 0 : 4), 4); }

  /// How many of eight threads, which load 16 bytes each in one access, use the same banks.
  static std::int64_t conflicts(const kernels::DirectTile& t, std::int64_t row, std::int64_t slice) {
    constexpr int kThreadsOfAccess = 8;
    std::array<std::int64_t, kThreadsOfAccess> users{};
    for (std::int64_t i = 0; i < kThreadsOfAccess; ++i) {
      const std::int64_t w = i & ((1 << (t.log[0] - 2)) - 1), line = i >> (t.log[0] - 2);
      const std::int64_t at = (line & ((1 << t.log[1]) - 1)) * row + (line >> t.log[1]) * slice + w * kRun;
      ++users[static_cast<std::size_t>(at / kRun % kThreadsOfAccess)];
    }
    return *std::ranges::max_element(users);
  }

  /// Replaces `tile` where one with so many warps side by side along the outputs takes less time.
  void choose_tile(std::int64_t warps, std::int64_t most) {
    const std::int64_t width = warps * outputs, pixels = kWarps / warps * kLanes * kRun * runs;
    const int log = std::bit_width(static_cast<std::uint64_t>(pixels)) - 1;
    for (int w = 2; w <= log; ++w)
      for (int h = 0; w + h <= log; ++h) {
        kernels::DirectTile t = tile;
        const bool is_useful = set_sides(t, {w, h, log - w - h});
        t.output_warps = narrow(warps);
        t.output_tiles = narrow(ceil_div(shape.outputs, width));
        const std::int64_t blocks_of_tile = count(t) * t.output_tiles;
        if ((is_useful || !fits) && blocks_of_tile <= kMostBlocks) consider(t, blocks_of_tile, most);
      }
  }

  void consider(kernels::DirectTile t, std::int64_t count, std::int64_t most) {
    const auto& s = shape;
    // The last window of a row ends at a multiple of four floats.
    const std::int64_t phase =
        std::max(ceil_div(t.halo[0], s.stride[0]),
                 row_taps == 0 ? 0 : (std::int64_t{1} << t.log[0]) + round_up((row_taps - 1) / s.stride[0], kRun));
    t.phase = narrow(round_up(phase, kRun));
    const std::int64_t least = std::int64_t{t.phase} * s.stride[0];
    std::int64_t fewest = 0;
    for (std::int64_t row = least; row < least + 4 * kRun; row += kRun) {
      const std::int64_t found = conflicts(t, row * s.stride[1], row * t.halo[1] * s.stride[2]);
      if (fewest > 0 && found >= fewest) continue;
      fewest = found;
      t.row = narrow(row);
    }
    const std::int64_t slice = std::int64_t{t.row} * t.halo[1], size = slice * t.halo[2];
    const std::int64_t plane = plane_of(size), filters = taps * pitch_of(t.output_warps * outputs),
                       staged = vectors || result_is_last() ? 0 : kThreads * kRun * 4;
    if (plane + filters > most || staged > most) return;
    const std::int64_t chunks = ceil_div(s.channels, std::min<std::int64_t>(s.channels, most / (plane + filters)));
    t.chunk = narrow(ceil_div(s.channels, chunks));
    t.slice = narrow(slice);
    t.plane = narrow(plane);
    set_lanes(t);
    const double time = cycles_of(t, count, real(fewest));
    if (fits && time >= cycles) return;
    fits = true;
    cycles = time;
    tile = t;
    blocks = count;
    local_floats = std::max(t.chunk * (plane + filters), staged);
  }

  /// Of all blocks, on one multiprocessor: arithmetic and loads from local memory overlap, as do bytes from the cache.
  double cycles_of(const kernels::DirectTile& t, std::int64_t count, double conflict) const {
    constexpr double kSchedulers = 4, kLoad = 10, kLoop = 12, kCopy = 17, kFilterCopy = 28, kRow = 25, kWait = 1200,
                     kBlock = 800;
    constexpr double kQuadStore = 1.5, kStore = 5, kBytes = 20, kSector = 32, kScattered = 2.3, kScatteredQuad = 0.06;
    const auto& s = shape;
    const bool last = source_is_last();
    const std::int64_t step = std::max<std::int64_t>(row_taps, 1);
    double windows = row_taps > 0 ? 0 : real(runs * kRun * kRun);
    for (std::int64_t q = 0; row_taps > 0 && q < std::min<std::int64_t>(s.stride[0], step); ++q)
      windows += real(runs * ceil_div(kRun + (step - 1 - q) / s.stride[0], kRun)) * conflict;
    const double loads = windows + real(step * ceil_div(outputs, kRun));
    const double issue = real(step * runs * kRun * outputs) + loads + kLoop;
    const double compute = real(taps / step * s.channels) * std::max(issue, loads * kLoad) * real(kWarps);
    const double chunks = real(ceil_div(s.channels, t.chunk)), lines = real(std::int64_t{t.halo[1]} * t.halo[2]);
    const double source = lines * real(std::int64_t{t.halo[0]} * s.channels), line = real(t.halo[0]) * sizeof(float);
    const double filters = real(s.channels * taps * t.output_warps * outputs);
    const double rows = last ? lines * chunks : lines * real(s.channels);
    const double copies =
        (source * kCopy + filters * kFilterCopy) / kLanes + rows * real(1 << t.lanes_log) / kLanes * kRow;
    const double stores = real(runs * kRun * outputs * kWarps) * (vectors ? kQuadStore : kStore);
    const double sectors = !last || chunks == 1
                               ? rows * (line * (last ? real(s.channels) : 1) + kSector)
                               : rows * real(t.halo[0]) * std::max(kSector, t.chunk * 4.0 + kSector / 2);
    const double busy = (compute + copies + stores) / kSchedulers;
    const double bytes = sectors + 4 * (filters + real(runs * kRun * outputs * kThreads));
    // Pixels that are stored with channels last share no sector of a store.
    const double scattered = result_is_last() ? real(runs * kRun * outputs * kThreads) *
                                                    (vectors ? kScatteredQuad * real(outputs) : kScattered)
                                              : 0;
    return real(ceil_div(count, units_)) * (std::max(busy, bytes / kBytes) + scattered) +
           real(ceil_div(count, units_ * resident())) * (kBlock + kWait * chunks);
  }
};

class GpuDirect final : public GpuSolver<Problem> {
 public:
  GpuDirect(const SolverInfo& info, Direction d) : GpuSolver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    POLYMIO_REQUIRE(p.direction == direction_, "serves another direction");
    if (const Verdict v = gpu::check_direct(d, p, direction_ == Direction::kBackwardData, true); !v) return v;
    if (const Verdict v = gpu::check_channel_epilogue(p); !v) return v;
    POLYMIO_REQUIRE(
        direction_ == Direction::kForward || std::ranges::all_of(p.geometry.stride, [](auto v) { return v == 1; }),
        "backward data of strides");
    POLYMIO_REQUIRE(Plan(d, p, {1, 1}).fits, "the smallest tile exceeds local memory or the blocks of a launch");
    return {};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    constexpr double kLaunchUs = 3, kMemory = 0.7, kArithmetic = 0.7;
    const double megahertz = d.fp32_gflops * 1e3 / (256.0 * std::max(d.units, 1));
    return kLaunchUs + std::max(Plan(d, p, point).cycles / (megahertz * kArithmetic),
                                gpu::tensor_bytes(p) / (1e3 * std::max(d.bandwidth_gbs, 1.0) * kMemory));
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override {
    return {{"runs", {2, 1, 4}}, {"outputs", {8, 4, 2, 1}}};
  }
  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    if (point.size() != 2) return false;
    const int runs = point[kRuns], outputs = point[kOutputs];
    if (runs != 1 && runs != 2 && runs != 4) return false;
    if (outputs != 1 && outputs != 2 && outputs != 4 && outputs != 8) return false;
    const std::int64_t all = direction_ == Direction::kBackwardData ? p.c() : p.k();
    // Idle sums, or less than half of what the registers hold where there are enough outputs.
    if (outputs > 1 && outputs >= 2 * all) return false;
    // What more registers would be needed for.
    const std::int64_t stride = p.geometry.stride[static_cast<std::size_t>(p.spatial() - 1)];
    if (runs * outputs > (runs == 4 || stride > 2 ? 8 : 16)) return false;
    if (outputs < 4 && 2 * outputs <= all && all > 2) return false;
    return Plan(d, p, point).fits;
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    std::vector<TunePoint> points = valid_points(*this, d, p);
    if (points.empty()) return {1, 1};
    // Of those with equal estimates, one with the most outputs.
    std::ranges::stable_sort(points, std::ranges::greater(), [](const TunePoint& point) { return point[kOutputs]; });
    return least_estimate(*this, d, p, points);
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const Plan plan(d, p, point);
    std::vector<std::string> options = {fmt::format("-DIN={}", name_of(p.x.type)),
                                        fmt::format("-DOUT={}", name_of(p.x.type))};
    const auto add = [&](const char* what, std::int64_t value) {
      options.push_back(fmt::format("-D{}={}", what, value));
    };
    add("SRC_LAST", plan.source_is_last());
    add("DST_LAST", plan.result_is_last());
    add("TAPS_W", plan.row_taps);
    add("STRIDE_W", plan.shape.stride[0]);
    add("RUNS", plan.runs);
    add("OUTPUTS", plan.outputs);
    add("VECTORS", plan.vectors);
    add("RESIDENT", plan.resident());
    if (!gpu::sizes_local_memory(d)) add("LOCAL_FLOATS", plan.local_floats);
    gpu::add_epilogue_options(p.epilogue, &options);
    return gpu::kernel_variants("primitives/convolution/gpu/direct.cl", "direct", std::move(options), false,
                                plan.vectors);
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint& point, const Kernels& built) const override {
    const Plan plan(d, p, point);
    const bool data = direction_ == Direction::kBackwardData, vectors = plan.vectors;
    Launch where = launch_shape(kThreads, plan.blocks);
    if (gpu::sizes_local_memory(d)) where.shared_bytes = static_cast<std::uint32_t>(plan.local_floats * 4);
    return [=, epilogue = p.epilogue, shape = plan.shape, tile = plan.tile, filters = plan.weights](Stream& stream,
                                                                                                    const Args& a) {
      const auto [bias, scale] = gpu::epilogue_operands(epilogue, a);
      launch(stream, *built[vectors && !gpu::aligned(a) ? 1 : 0], where, Buffer(data ? a.y : a.x), Buffer(a.w),
             Buffer(data ? a.x : a.y), bias, scale, shape, tile, filters, gpu::epilogue_scalars(a));
    };
  }

 private:
  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> gpu_direct(const SolverInfo& info, Direction d) {
  return std::make_unique<GpuDirect>(info, d);
}

}  // namespace polymio::convolution
