// ConvCudaFewChannelsWrw: the gradient of the weights of 16-bit floats with few channels in or out on NVIDIA's matrix
// units.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>

#include "base/math.h"
#include "core/kernel_builder.h"
#include "kernels/gpu/sm90/conv_shape.h"
#include "primitives/convolution/cuda/depthwise_1d.h"
#include "primitives/convolution/cuda/few_channels.h"
#include "primitives/convolution/cuda/matrix_units.h"
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution {
namespace {

using cuda::few_channels_divides;
using cuda::few_channels_load_unit;
using cuda::few_channels_overlap;
using gpu::narrow;
using Shape = kernels::ConvFewChannelsWeightsShape;
using Operand = kernels::ConvFewChannelsOperand;

// As in the kernel.
constexpr std::int64_t kStep = 16, kZeros = 16, kSumPitch = 512;

constexpr int kTileLogs[] = {7, 8, 9}, kSums[] = {16, 32};  // log of the pixels of a tile; blocks of sums of a warp
constexpr int kWarps[] = {4, 8};
constexpr std::int64_t kMostBytes = 128 << 20;  // of partial sums
constexpr std::int64_t kMostTiles = 1 << 29;
constexpr double kTooMuch = 1e3;
enum Knobs { kTile, kSum, kWarp };

struct Arguments {
  const void *rows, *columns;
  void* partials;
  Shape shape;
};

double real(std::int64_t v) { return static_cast<double>(v); }

/// A problem's shape, and the launch of its kernel.
struct Plan {
  Shape shape{};
  bool rows_are_x;     // dy is read at each tap, else x
  bool planes, slots;  // as in the kernel
  int warps;
  int rows, columns;   // blocks of 16 rows and of 8 columns of a warp
  unsigned pitch = 0;  // of the rows' pixels if they are not planes in shared memory
  std::int64_t shared_bytes = 0;
  double cycles = 0;  // of a tile

  /// Of the product, for each of which a block reads all pixels of its share.
  std::int64_t parts() const { return std::int64_t{shape.row_tiles} * shape.chunks * shape.column_tiles; }

  Plan(const DeviceInfo& d, const Problem& p, const TunePoint& point) {
    warps = kWarps[point[kWarp]];
    rows_are_x = p.k() < p.c() && std::ranges::all_of(p.geometry.stride, [](auto v) { return v == 1; });
    auto& s = shape;
    s.images = narrow(p.n());
    s.count = p.w.count();
    set_operand(s.rows, rows_are_x ? p.x : p.y);
    set_operand(s.columns, rows_are_x ? p.y : p.x);
    s.result_row = p.w.strides[rows_are_x ? 1 : 0];
    s.result_column = p.w.strides[rows_are_x ? 0 : 1];
    for (int i = 0; i < 3; ++i) set_axis(p, i);
    planes = s.rows.source_channel != 1 && s.rows.load_unit == 8;
    choose_product(kSums[point[kSum]]);
    if (slots) s.columns.load_unit = slot_unit(rows_are_x ? p.y : p.x);
    choose_tile(d, kTileLogs[point[kTile]]);
    const std::int64_t most = std::min<std::int64_t>(s.all_tiles, kMostBytes / (4 * s.count));
    s.splits = narrow(std::clamp<std::int64_t>(resident(d) * d.units / parts(), 1, std::max<std::int64_t>(most, 1)));
  }

  int threads() const { return 32 * warps; }

  /// Blocks that a multiprocessor has at once.
  std::int64_t resident(const DeviceInfo& d) const { return resident_of(d, shared_bytes); }

 private:
  int stages() const { return warps / 4; }  // tiles in shared memory

  static void set_operand(Operand& o, const TensorDesc& t) {
    o.channels = narrow(t.lens[1]);
    o.load_unit = few_channels_load_unit(t, 8);
    o.source_image = t.strides[0];
    o.source_channel = t.strides[1];
    for (int i = 0; i < 3; ++i) {
      const auto at = static_cast<std::size_t>(t.rank - 1 - i);
      o.source_size[i] = i < t.rank - 2 ? narrow(t.lens[at]) : 1;
      o.source_step[i] = i < t.rank - 2 ? t.strides[at] : 0;
      o.step[i] = 1;
    }
  }

  /// Elements of few channels that are copied at once: 8 pixels of planes, else channels.
  static int slot_unit(const TensorDesc& t) {
    for (const int unit : {4, 2})
      if (t.strides[1] == 1 && t.lens[1] % unit == 0 && few_channels_divides(t, unit, 1)) return unit;
    constexpr int kLeast = 3;  // channels whose blocks of pixels occupy a warp
    return t.strides[1] != 1 && t.lens[1] >= kLeast && few_channels_load_unit(t, 8) == 8 ? 8 : 1;
  }

  void set_axis(const Problem& p, int i) {
    auto& s = shape;
    s.size[i] = s.rows.source_size[i];
    s.taps[i] = s.distance[i] = 1;
    if (i >= p.spatial()) return;
    const int at = p.spatial() - 1 - i;
    const auto d = static_cast<std::size_t>(at);
    s.taps[i] = narrow(p.filter(at));
    if (s.taps[i] > 1) s.distance[i] = narrow(p.geometry.dilation[d]);
    s.columns.step[i] = narrow(p.geometry.stride[d]);
    const std::int64_t pad = p.geometry.pad[d], step = p.w.strides[d + 2], last = s.taps[i] - 1;
    // Where rows are x, their pixels meet dy at the last tap first.
    s.columns.origin[i] = narrow(rows_are_x ? pad - last * s.distance[i] : -pad);
    s.result_tap[i] = rows_are_x ? -step : step;
    if (rows_are_x) s.first += last * step;
  }

  /// Rows and columns of a warp, and which warps share columns: few, since each of these loads all rows.
  void choose_product(int most) {
    constexpr int kMostChannels = 32, kMostColumns = 16;
    auto& s = shape;
    rows = s.rows.channels <= 16 ? 1 : s.rows.channels <= 32 ? 2 : 4;
    s.row_tiles = narrow(ceil_div(s.rows.channels, 16 * rows));
    s.rows.chunk = std::min(16 * rows, narrow(round_up(s.rows.channels, 8)));
    slots = s.columns.channels <= 4;
    s.slot = slots ? narrow(std::bit_ceil(static_cast<unsigned>(s.columns.channels))) : 8;
    s.slot_taps = slots ? std::min(8 / s.slot, s.taps[0]) : 1;
    s.chunks = slots ? 1 : narrow(ceil_div(s.columns.channels, kMostChannels));
    s.columns.chunk = slots ? 8 : narrow(round_up(ceil_div(s.columns.channels, s.chunks), 8));
    s.tap_blocks = narrow(ceil_div(s.taps[0], s.slot_taps));
    s.blocks = s.tap_blocks * s.taps[1] * s.taps[2] * (s.columns.chunk / 8);
    const int of_warp = std::min(most / rows, kMostColumns);
    s.column_tiles = narrow(ceil_div(s.blocks, std::int64_t{warps} * of_warp));
    const std::int64_t of_tile = ceil_div(s.blocks, s.column_tiles);
    s.column_warps = 1;
    while (ceil_div(of_tile, s.column_warps) > of_warp) s.column_warps *= 2;
    s.pixel_warps = warps / s.column_warps;
    columns = narrow(round_up(ceil_div(of_tile, s.column_warps), 2));
    pitch = pitch_of(s.rows);
    s.columns.pitch = pitch_of(s.columns);
  }

  /// An odd multiple of 16 bytes: eight pixels are in different banks.
  static unsigned pitch_of(const Operand& o) { return static_cast<unsigned>((o.chunk / 8 | 1) * 16); }

  /// The tile of so many pixels with the least estimated time.
  void choose_tile(const DeviceInfo& d, int log) {
    auto& s = shape;
    // Eight pixels of planes are copied at once, and of a line they are in different banks of shared memory.
    const int least_width = planes ? 3 : std::min<int>(3, std::bit_width(static_cast<unsigned>(s.size[0] - 1)));
    s.steps = narrow((std::int64_t{1} << log) / kStep);
    const unsigned plane = (2u << log) + 16;
    s.rows.pitch = planes ? plane : pitch;
    const std::int64_t row_bytes = std::max<std::int64_t>(std::int64_t{pitch} << log, planes ? 16 * rows * plane : 0);
    const std::int64_t sums = s.pixel_warps > 1 ? std::int64_t{rows} * columns * 4 * kSumPitch : 0;
    double least = 0;
    for (int w = least_width; w <= log; ++w)
      for (int h = 0; w + h <= log; ++h) {
        const int logs[3] = {w, h, log - w - h};
        std::int64_t pixels = 1, count = s.images, halo[3], tiles[3];
        for (int i = 0; i < 3; ++i) {
          const std::int64_t size = std::int64_t{1} << logs[i];
          const std::int64_t taps = i == 0 ? (s.tap_blocks - 1) * s.slot_taps : s.taps[i] - 1;
          halo[i] = (size - 1) * s.columns.step[i] + taps * s.distance[i] + 1;
          tiles[i] = ceil_div(s.size[i], size);
          pixels *= halo[i];
          count *= tiles[i];
        }
        const std::int64_t stage = round_up(row_bytes + pixels * s.columns.pitch, kZeros);
        const std::int64_t shared = std::max(stages() * stage, sums) + kZeros;
        const double tile = cycles_of(d, halo, shared);
        const bool fits = shared <= static_cast<std::int64_t>(d.gpu.shared_opt_in_bytes) && count < kMostTiles;
        const double time = real(count) * tile * (fits ? 1 : kTooMuch);
        if (least > 0 && time >= least) continue;
        least = time;
        cycles = tile;
        shared_bytes = shared;
        s.columns_at = static_cast<unsigned>(row_bytes);
        s.stage_bytes = static_cast<unsigned>(std::min(stage, kMostTiles));
        s.all_tiles = narrow(std::min(count, kMostTiles));
        for (int i = 0; i < 3; ++i) {
          s.tile_log[i] = logs[i];
          s.rows.halo[i] = 1 << logs[i];
          s.columns.halo[i] = narrow(std::min(halo[i], kMostTiles));
          s.tiles[i] = narrow(tiles[i]);
        }
      }
  }

  std::int64_t resident_of(const DeviceInfo& d, std::int64_t shared) const {
    constexpr std::int64_t kOfBlock = 1 << 10;  // that the driver takes
    const int sums = rows * columns;
    const std::int64_t most = (sums <= 12 ? 4 : sums <= 20 ? 3 : 2) / stages();  // as in the kernel
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(d.gpu.shared_opt_in_bytes) / (shared + kOfBlock), 1,
                                    most);
  }

  /// Of a tile: products, loads of fragments, copies of both operands.
  double cycles_of(const DeviceInfo& d, const std::int64_t (&halo)[3], std::int64_t shared) const {
    constexpr double kProduct = 1.7, kMatrices = 4, kStepCycles = 10, kBytes = 14, kTileCycles = 400,
                     kSerial = 0.3;  // of copies and products, what does not overlap
    const auto& s = shape;
    const double warps = s.column_warps, steps = s.steps;
    const double products =
        steps * std::max(warps * rows * columns * kProduct, warps * ((rows + columns / 2) * kMatrices + kStepCycles));
    const std::int64_t pixels = s.steps * kStep, source = halo[0] * halo[1] * halo[2];
    const double bytes = real(pixels * s.rows.chunk + source * (slots ? s.columns.channels : s.columns.chunk)) * 2;
    const double copies = copy_cycles(s.rows, pixels, pixels, planes) +
                          (slots ? slot_cycles(halo) : copy_cycles(s.columns, halo[0], source, false));
    const double loads = copies + bytes / kBytes;
    return kTileCycles +
           (stages() == 1 ? products + loads : std::max(products, loads) + kSerial * std::min(products, loads)) *
               few_channels_overlap(resident_of(d, shared));
  }

  static double copy_cycles(const Operand& o, std::int64_t width, std::int64_t pixels, bool as_planes) {
    constexpr double kCopy = 14, kPair = 22, kBlocks = 60;  // of 32 units
    if (o.load_unit != 8) return real(pixels * o.chunk) / 2 / 32 * kPair;
    if (o.source_channel == 1 || as_planes) return real(pixels * o.chunk) / 8 / 32 * kCopy;
    return real(ceil_div(width, 8) + 1) / real(std::max<std::int64_t>(width, 1)) * real(pixels * o.chunk) / 2 / 32 *
           kBlocks;
  }
  double slot_cycles(const std::int64_t (&halo)[3]) const {
    constexpr double kLoad = 14, kStore = 6;
    const auto& s = shape;
    const double stores = kStore * s.slot_taps * (s.columns.load_unit == 8 ? 8 : 1);
    const std::int64_t units = (halo[0] + (s.slot_taps - 1) * s.distance[0]) * s.columns.channels / s.columns.load_unit;
    return real(ceil_div(units, 32) * halo[1] * halo[2]) * (kLoad + stores);
  }
};

class CudaFewChannelsWeights final : public GpuSolver<Problem> {
 public:
  explicit CudaFewChannelsWeights(const SolverInfo& info) : GpuSolver(info) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    constexpr std::int64_t kMostSize = 1 << 28;
    POLYMIO_REQUIRE(p.direction == Direction::kBackwardWeights, "serves another direction");
    if (const Verdict v = cuda::check_few_channels(d, p, kMostSize); !v) return v;
    if (const Verdict v = gpu::check_types(d, p); !v) return v;
    POLYMIO_REQUIRE_MOST(p.w.count(), kMostBytes / 4, "elements of w");
    POLYMIO_REQUIRE(p.w.space() == p.w.count(), "w has gaps");
    double taps = 1;
    for (int i = 0; i < p.spatial(); ++i) taps *= real(p.filter(i));
    POLYMIO_REQUIRE_MOST(static_cast<std::int64_t>(taps), cuda::kFewChannelsProducts, "taps");
    const Plan plan(d, p, {0, 0, 0});
    POLYMIO_REQUIRE_MOST(plan.shared_bytes, static_cast<std::int64_t>(d.gpu.shared_opt_in_bytes),
                         "bytes of shared memory");
    POLYMIO_REQUIRE_MOST(plan.shape.all_tiles, kMostTiles - 1, "tiles");
    return {};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    constexpr double kLaunchesUs = 8, kMemory = 0.75, kGigahertz = 1.7;
    const Plan plan(d, p, point);
    const std::int64_t tiles = ceil_div(plan.shape.all_tiles, plan.shape.splits) *
                               ceil_div(plan.parts() * plan.shape.splits, std::int64_t{d.units});
    const std::int64_t resident = plan.resident(d),
                       blocks = ceil_div(plan.parts() * plan.shape.splits, std::int64_t{d.units});
    const double few = few_channels_overlap(std::min(blocks, resident)) / few_channels_overlap(resident);
    const double bytes_per_us = 1e3 * d.bandwidth_gbs * kMemory;
    return kLaunchesUs + 8 * real(plan.shape.splits * plan.shape.count) / bytes_per_us +
           std::max(real(tiles) * plan.cycles * few / (1e3 * kGigahertz), gpu::tensor_bytes(p) / bytes_per_us);
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override {
    return {{"tile", {1, 0, 2}}, {"sums", {0, 1}}, {"warps", {0, 1}}};
  }
  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    if (point.size() != 3 || point[kTile] < 0 || point[kTile] >= static_cast<int>(std::size(kTileLogs)) ||
        point[kSum] < 0 || point[kSum] >= static_cast<int>(std::size(kSums)) || point[kWarp] < 0 ||
        point[kWarp] >= static_cast<int>(std::size(kWarps)))
      return false;
    const Plan plan(d, p, point);
    if (plan.shared_bytes > static_cast<std::int64_t>(d.gpu.shared_opt_in_bytes) || plan.shape.all_tiles >= kMostTiles)
      return false;
    if (point[kSum] == 0) return true;
    const Plan fewer(d, p, {point[kTile], 0, point[kWarp]});
    return plan.columns != fewer.columns || plan.shape.column_warps != fewer.shape.column_warps;
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    std::vector<TunePoint> points = valid_points(*this, d, p);
    std::ranges::sort(points);  // of those with equal estimates, the smallest tile
    return least_estimate(*this, d, p, points);
  }

  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const Plan plan(d, p, point);
    return gpu::sum_bytes(plan.shape.splits * plan.shape.count);
  }

  /// The last one is for planes that do not begin at a multiple of 16 bytes.
  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const Plan plan(d, p, point);
    const std::string type(name_of(p.w.type));
    std::vector<KernelSpec> specs = {
        {"primitives/convolution/gpu/columns.cl", "add_partials", {"-DIN=" + type, "-DOUT=" + type, "-DWIDE=0"}}};
    const auto add = [&](bool planes) {
      KernelSpec spec{"primitives/convolution/cuda/few_channels_weights.cu", "conv_few_channels_weights", {}};
      spec.instantiation = fmt::format("sm90::ConvFewChannelsWeights<sm90::{}, {}, {}, {}, {}, {}>",
                                       p.w.type == DataType::kHalf ? "Half" : "Bfloat16", plan.warps, plan.rows,
                                       plan.columns, planes, plan.slots);
      specs.push_back(spec);
    };
    add(plan.planes);
    if (plan.planes) add(false);
    return specs;
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint& point, const Kernels& built) const override {
    const Plan plan(d, p, point);
    Launch where = launch_shape(plan.threads(), plan.parts() * plan.shape.splits);
    where.shared_bytes = static_cast<std::uint32_t>(plan.shared_bytes);
    return [built, plan, where](Stream& stream, const Args& a) {
      const void* const rows = plan.rows_are_x ? a.x : a.y;
      Arguments arguments{rows, plan.rows_are_x ? a.y : a.x, gpu::align_up(a.workspace, 16), plan.shape};
      const bool is_aligned = reinterpret_cast<std::uintptr_t>(rows) % 16 == 0;
      if (!is_aligned) arguments.shape.rows.pitch = plan.pitch;
      launch(stream, is_aligned ? *built[1] : *built.back(), where, arguments);
      gpu::add_partials(stream, *built[0], {a.workspace, a.w, plan.shape.count, plan.shape.splits},
                        static_cast<float>(a.alpha), static_cast<float>(a.beta));
    };
  }
};

}  // namespace

std::unique_ptr<const SolverBase> cuda_few_channels_weights(const SolverInfo& info, Direction) {
  return std::make_unique<CudaFewChannelsWeights>(info);
}

}  // namespace polymio::convolution
