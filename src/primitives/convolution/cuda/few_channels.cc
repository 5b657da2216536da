// ConvCudaFewChannels: forward and backward data of 16-bit floats with few channels in or out on NVIDIA's matrix units.
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
#include "primitives/convolution/cuda/hopper.h"
#include "primitives/convolution/cuda/matrix_units.h"
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution {
namespace {

using cuda::few_channels_divides;
using cuda::few_channels_load_unit;
using cuda::few_channels_overlap;
using gpu::narrow;
using Shape = kernels::ConvFewChannelsShape;

// As in the kernel.
constexpr std::int64_t kThreads = 128, kWarps = 4, kGroup = 64, kPackingThreads = 256;

constexpr std::int64_t kMostRows = 64, kMostWeights = 40 << 10;  // of a block's product; bytes in shared memory
constexpr int kGroups[] = {4, 8, 16, 32}, kChunks[] = {16, 32, 64};
constexpr std::int64_t kMostPacked = 1 << 30, kMostWorks = 1 << 29;  // for the kernels' numbers
enum Knobs { kTile, kChunk, kCell };

struct Arguments {
  const void *source, *weights, *packed;
  kernels::ConvChannelParameters parameters;
  void* result;
  Shape shape;
};
struct PackingArguments {
  const void* weights;
  void* packed;
  Shape shape;
};

double real(std::int64_t v) { return static_cast<double>(v); }

/// The sizes of a problem along one of the dimensions W, H, D.
struct Axis {
  std::int64_t size = 1, source = 1, taps = 1, stride = 1, pad = 0, dilation = 1;
  bool is_data;

  Axis(const Problem& p, int i) : is_data(p.direction == Direction::kBackwardData) {
    if (i >= p.spatial()) return;
    const int at = p.spatial() - 1 - i;
    const auto d = static_cast<std::size_t>(at);
    size = is_data ? p.in(at) : p.out(at);
    source = is_data ? p.out(at) : p.in(at);
    taps = p.filter(at);
    stride = p.geometry.stride[d];
    pad = p.geometry.pad[d];
    if (taps > 1) dilation = p.geometry.dilation[d];
  }

  /// Results between cells whose source pixels are `step` apart, for some step.
  std::int64_t least_cell() const { return is_data ? stride : 1; }
  std::int64_t step(std::int64_t cell) const { return is_data ? cell / stride : cell * stride; }
  std::int64_t first_point() const {  // of a gradient of data
    const std::int64_t first = pad - (taps - 1) * dilation;
    return first >= 0 ? ceil_div(first, stride) : -(-first / stride);
  }
  std::int64_t points(std::int64_t cell) const {
    if (dilation > 1) return taps;
    return is_data ? (cell - 1 + pad) / stride - first_point() + 1 : (cell - 1) * stride + taps;
  }
};

/// A problem's shape, and the launch of its kernel.
struct Plan {
  Shape shape{};
  std::array<Axis, 3> axes;
  std::int64_t most_shared;  // bytes of a block
  bool adds, scales;         // old results; by channel
  bool matrices = false, planes = false;
  int row_tiles = 1;  // blocks of 16 rows of a block of threads
  std::int64_t all_tiles = 0, shared_bytes = 0, packed_count = 0;
  std::int64_t resident = 1;  // blocks of a multiprocessor
  double cycles = 0;          // of a multiprocessor with so many blocks, for a tile

  std::int64_t works() const { return all_tiles * shape.chunks; }

  Plan(const DeviceInfo& d, const Problem& p, const TunePoint& point)
      : axes{Axis(p, 0), Axis(p, 1), Axis(p, 2)},
        most_shared(static_cast<std::int64_t>(d.gpu.shared_opt_in_bytes)),
        adds(p.scalars == Scalars::kBilinear),
        scales(p.epilogue.scale) {
    const bool data = p.direction == Direction::kBackwardData;
    const TensorDesc &source = data ? p.y : p.x, &result = data ? p.x : p.y;
    auto& s = shape;
    s.images = narrow(p.n());
    s.channels = narrow(data ? p.k() : p.c());
    s.outputs = narrow(data ? p.c() : p.k());
    s.source_image = source.strides[0];
    s.source_channel = source.strides[1];
    s.result_image = result.strides[0];
    s.result_channel = result.strides[1];
    s.weight_output = p.w.strides[data ? 1 : 0];
    s.weight_channel = p.w.strides[data ? 0 : 1];
    for (int i = 0; i < 3; ++i) {
      const auto at = static_cast<std::size_t>(p.spatial() + 1 - i);
      const bool exists = i < p.spatial();
      s.source_step[i] = exists ? source.strides[at] : 0;
      s.result_step[i] = exists ? result.strides[at] : 0;
      s.weight_tap[i] = exists ? p.w.strides[at] : 0;
    }
    planes = s.result_channel != 1 || s.outputs == 1;
    choose_source(source);
    choose_chunk(kChunks[point[kChunk]]);
    choose_cell(point[kCell] == 0);
    set_units(source, result);
    choose_tile(kGroups[point[kTile]]);
  }

 private:
  /// Whether pixels go from global memory to registers: those of a filter of one tap, which are used once.
  void choose_source(const TensorDesc& source) {
    auto& s = shape;
    matrices = s.channels > 6;
    constexpr int kMostOutputs = 32;  // registers
    const bool one_tap =
        std::ranges::all_of(axes, [](const Axis& a) { return a.taps == 1 && a.pad == 0 && a.least_cell() == 1; });
    const std::int64_t weights = std::int64_t{s.channels} * (s.outputs <= 16 ? 32 : 64);  // bytes, in rows of 16
    s.takes_pixels = one_tap && s.outputs <= kMostOutputs && s.source_channel == 1 && s.channels % 32 == 0 &&
                     few_channels_divides(source, 8, 1) && weights <= kMostWeights;
  }

  void choose_chunk(int most) {
    auto& s = shape;
    if (s.takes_pixels) most = s.channels;
    const int channels = narrow(round_up(s.channels, matrices ? 8 : 2));
    s.chunk = std::min(channels, most);
    s.chunks = ceil_div(s.channels, s.chunk);
    if (matrices) s.chunk = narrow(round_up(ceil_div(s.channels, s.chunks), 8));
    s.pitch = static_cast<unsigned>(matrices ? (s.chunk / 8 | 1) * 16 : s.chunk * 2);
  }

  /// The cell with the least products and loads of a result or, unless `best`, the smallest one.
  void choose_cell(bool best) {
    auto& s = shape;
    std::array<std::int64_t, 3> times{1, 1, 1}, chosen{1, 1, 1};
    constexpr double kMostPixels = 48 << 10;  // bytes
    double least = 0;
    for (times[0] = 1; times[0] <= 4; times[0] *= 2)
      for (times[1] = 1; times[1] <= 4; times[1] *= 2)
        for (times[2] = 1; times[2] <= 2; times[2] *= 2) {
          double points = 1, results = 1, pixels = kWarps * kGroup;
          bool exists = true;
          for (std::size_t i = 0; i < 3; ++i) {
            const std::int64_t cell = axes[i].least_cell() * times[i];
            exists = exists &&
                     (times[i] == 1 || (best && !s.takes_pixels && axes[i].dilation == 1 && axes[i].size > cell / 2));
            points *= real(axes[i].points(cell));
            results *= real(cell);
            pixels *= real(axes[i].step(cell));
          }
          const double rows = std::ceil(results * s.outputs / 16);
          const double bytes = std::ceil(points * s.chunk / 16) * std::min(rows, 4.0) * 512;
          const bool is_first = least == 0;
          if (!exists || (!is_first && (results * s.outputs > real(kMostRows) || bytes > real(kMostWeights) ||
                                        pixels * s.pitch > kMostPixels)))
            continue;
          const double cost = points / results * (2 + 1.5 * rows);
          if (!is_first && cost >= least) continue;
          least = cost;
          chosen = times;
        }
    s.cells = 1;
    std::int64_t products = s.chunk;
    for (int i = 0; i < 3; ++i) {
      const Axis& axis = axes[static_cast<std::size_t>(i)];
      const std::int64_t cell = axis.least_cell() * chosen[static_cast<std::size_t>(i)];
      s.size[i] = narrow(axis.size);
      s.source_size[i] = narrow(axis.source);
      s.taps[i] = narrow(axis.taps);
      s.cell[i] = narrow(cell);
      s.cell_log[i] = std::bit_width(static_cast<unsigned>(cell)) - 1;
      s.points[i] = narrow(axis.points(cell));
      s.distance[i] = narrow(axis.dilation);
      s.step[i] = narrow(axis.step(cell));
      s.origin[i] = narrow(axis.is_data ? axis.first_point() : -axis.pad);
      const bool dilated = axis.dilation > 1;
      s.tap_of_point[i] = axis.is_data ? narrow(-axis.stride) : 1;
      s.tap_of_result[i] = dilated ? 0 : axis.is_data ? 1 : narrow(-axis.stride);
      s.first_tap[i] = !axis.is_data ? 0 : narrow(dilated ? axis.taps - 1 : axis.pad - axis.stride * s.origin[i]);
      s.cells *= s.cell[i];
      products *= s.points[i];
      if (!std::has_single_bit(static_cast<unsigned>(cell))) s.by_elements = 1;
    }
    s.rows = s.cells * s.outputs;
    const bool registers_suffice = !(planes && scales);  // for four blocks of rows
    row_tiles = s.rows <= 16 ? 1 : s.rows <= 32 || !registers_suffice ? 2 : 4;
    s.row_blocks = ceil_div(s.rows, 16 * row_tiles);
    s.steps = narrow(ceil_div(products, 16));
    s.width_log = 6 + s.cell_log[0];
    s.table_bytes = static_cast<unsigned>(round_up(s.steps * (matrices ? 8 : 32), 16));
    packed_count = std::int64_t{s.row_blocks} * s.chunks * s.steps * row_tiles * 128;
    const int rows = 16 * row_tiles;
    s.staged_bytes = static_cast<unsigned>(planes ? rows * (kGroup * 2 + 16) : kGroup * (rows * 2 + 16));
  }

  /// The tile of so many groups of cells with the least estimated time.
  void choose_tile(int groups) {
    constexpr double kTooMuch = 1e3;
    constexpr int kLeastWidth = 3;  // a tile of the product has 8 cells
    auto& s = shape;
    s.groups = groups;
    const std::int64_t weights = s.steps * row_tiles * std::int64_t{512};
    s.keeps_weights = weights * s.chunks <= std::max(kMostWeights, weights);
    double least = 0;
    const int log = std::bit_width(static_cast<unsigned>(groups * kGroup)) - 1;
    for (int w = kLeastWidth; w <= log; ++w)
      for (int h = 0; w + h <= log; ++h) {
        const int logs[3] = {w, h, log - w - h};
        std::int64_t pixels = 1, count = s.images, halo[3], tiles[3];
        for (int i = 0; i < 3; ++i) {
          const std::int64_t cells = std::int64_t{1} << logs[i];
          halo[i] = (cells - 1) * s.step[i] + std::int64_t{s.points[i] - 1} * s.distance[i] + 1;
          tiles[i] = ceil_div(s.size[i], cells * s.cell[i]);
          pixels *= halo[i];
          count *= tiles[i];
        }
        const std::int64_t bytes = s.takes_pixels ? 0 : round_up(pixels * s.pitch, 16);
        const std::int64_t shared =
            weights * (s.keeps_weights ? s.chunks : 1) + s.table_bytes + bytes + kWarps * std::int64_t{s.staged_bytes};
        const double tile = cycles_of(halo, 8 << (w - 3), shared),
                     time = real(count) * tile * (shared <= most_shared ? 1 : kTooMuch);
        if (least > 0 && time >= least) continue;
        least = time;
        cycles = tile;
        resident = resident_of(shared);
        shared_bytes = shared;
        s.source_bytes = static_cast<unsigned>(bytes);
        all_tiles = count;
        s.all_tiles = narrow(count);
        for (int i = 0; i < 3; ++i) {
          s.tile_log[i] = logs[i];
          s.halo[i] = narrow(halo[i]);
          s.tiles[i] = narrow(tiles[i]);
        }
      }
  }

  /// Blocks that a multiprocessor can have at once.
  std::int64_t resident_of(std::int64_t shared) const {
    constexpr std::int64_t kOfBlock = 1 << 10;                              // that the driver takes
    const std::int64_t most = row_tiles == 1 ? 4 : row_tiles == 2 ? 3 : 2;  // as in the kernel
    const std::int64_t fewer = shape.takes_pixels && row_tiles < 4 ? 1 : 0;
    return std::clamp<std::int64_t>(most_shared / (shared + kOfBlock), 1, most - fewer);
  }

  /// Of a tile: products and loads of fragments, copies of source pixels and weights, results.
  double cycles_of(const std::int64_t (&halo)[3], std::int64_t width, std::int64_t shared) const {
    constexpr double kProduct = 1.7, kBytes = 24, kCopy = 14, kPair = 22, kPlanes = 60, kStore = 1.5, kStaged = 2.5,
                     kByElements = 15, kTile = 800;
    const auto& s = shape;
    const double steps = real(std::int64_t{s.steps} * s.chunks * s.groups), rows = row_tiles;
    const double products = steps * std::max(8 * rows * kProduct, 25 + 4 * rows);
    // Copies of 32 units, of rows of the source.
    const bool last = s.source_channel == 1, blocks = !last && s.load_unit == 8, pairs = s.load_unit == 2;
    const std::int64_t units = blocks ? (ceil_div(halo[0], 8) + 1) * s.chunk / 2 : halo[0] * s.chunk / s.load_unit;
    const double copies = s.takes_pixels ? 0 : real(ceil_div(units, 32) * halo[1] * halo[2] * s.chunks);
    const double bytes = real(halo[0] * halo[1] * halo[2] * s.chunk * 2 * s.chunks) +
                         (s.keeps_weights ? 0 : steps / s.groups * rows * 512);
    // Sectors of results.
    const double run = real(planes ? std::min<std::int64_t>(32, width * s.cell[0]) : 32) / 32;
    const bool direct = s.cells == 1 && s.store_unit % (planes ? 8 : 2 * row_tiles) == 0;
    const double store = adds || s.by_elements ? kByElements : direct ? kStore : kStaged;
    const double results = real(s.groups) * 64 * 16 * rows * 2 / kBytes * store / run;
    const double copy = blocks ? kPlanes : pairs ? kPair : kCopy;
    return (kTile + products + copies * copy + bytes / kBytes + results) * few_channels_overlap(resident_of(shared));
  }

  void set_units(const TensorDesc& source, const TensorDesc& result) {
    auto& s = shape;
    s.load_unit = few_channels_load_unit(source, matrices ? 8 : 4);
    s.store_unit = 1;
    for (const int unit : {8, 4, 2}) {
      const bool contiguous =
          planes ? s.result_step[0] == 1 && s.size[0] % unit == 0 : s.result_channel == 1 && s.outputs % unit == 0;
      if (s.store_unit == 1 && contiguous && few_channels_divides(result, unit, planes ? result.rank - 1 : 1))
        s.store_unit = unit;
    }
  }
};

class CudaFewChannels final : public GpuSolver<Problem> {
 public:
  CudaFewChannels(const SolverInfo& info, Direction d) : GpuSolver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    constexpr std::int64_t kMostSize = 1 << 29;
    POLYMIO_REQUIRE(p.direction == direction_, "serves another direction");
    if (const Verdict v = cuda::check_few_channels(d, p, kMostSize); !v) return v;
    if (const Verdict v = gpu::check_types(d, p, true); !v) return v;
    if (const Verdict v = gpu::check_channel_epilogue(p, true); !v) return v;
    double products = 2;
    std::int64_t cell = 1;
    for (int i = 0; i < 3; ++i) {
      const Axis axis(p, i);
      POLYMIO_REQUIRE(!axis.is_data || axis.stride == 1 || axis.dilation == 1, "a stride and dilation");
      cell *= axis.least_cell();
      products *= real(axis.points(axis.least_cell()));
    }
    POLYMIO_REQUIRE(cell == 1 || (cell <= kMostRows && cell * p.c() <= kMostRows),
                    "channels of all phases are more than 64");
    POLYMIO_REQUIRE_MOST(static_cast<std::int64_t>(products), cuda::kFewChannelsProducts, "taps");
    const Plan plan(d, p, {0, 0, 0});
    POLYMIO_REQUIRE_MOST(plan.shared_bytes, plan.most_shared, "bytes of shared memory");
    POLYMIO_REQUIRE_MOST(plan.packed_count, kMostPacked, "packed weights");
    POLYMIO_REQUIRE_MOST(plan.works(), kMostWorks, "tiles, times parts of the channels");
    return {};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    constexpr double kLaunchUs = 6, kMemory = 0.75, kGigahertz = 1.7;
    const Plan plan(d, p, point);
    const std::int64_t tiles = ceil_div(plan.all_tiles * plan.shape.row_blocks, std::int64_t{d.units});
    const double few = few_channels_overlap(std::min(tiles, plan.resident)) / few_channels_overlap(plan.resident);
    return kLaunchUs + std::max(real(tiles) * plan.cycles * few / (1e3 * kGigahertz),
                                gpu::tensor_bytes(p) / (1e3 * d.bandwidth_gbs * kMemory));
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override {
    return {{"tile", {1, 0, 2, 3}}, {"chunk", {1, 0, 2}}, {"cell", {0, 1}}};
  }
  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    if (point.size() != 3 || point[kTile] < 0 || point[kTile] >= static_cast<int>(std::size(kGroups)) ||
        point[kChunk] < 0 || point[kChunk] >= static_cast<int>(std::size(kChunks)) || point[kCell] < 0 ||
        point[kCell] > 1)
      return false;
    const Plan plan(d, p, point);
    if (plan.shared_bytes > plan.most_shared || plan.packed_count > kMostPacked || plan.works() > kMostWorks)
      return false;
    if (plan.shape.takes_pixels && point[kChunk] != 0) return false;  // the same point
    if (plan.shape.chunks > 1 && plan.shape.groups > kWarps) return false;
    if (point[kCell] == 1 && Plan(d, p, {point[kTile], point[kChunk], 0}).shape.cells == plan.shape.cells) return false;
    // Larger chunks than there are channels are the same point.
    return point[kChunk] == 0 || plan.shape.chunk > kChunks[point[kChunk] - 1];
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    std::vector<TunePoint> points = valid_points(*this, d, p);
    std::ranges::sort(points);  // of those with equal estimates, the smallest tile
    return least_estimate(*this, d, p, points);
  }

  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    constexpr std::int64_t kAlignment = 16;
    return static_cast<std::size_t>(Plan(d, p, point).packed_count * 4 + kAlignment);
  }

  /// The last one is for a source that does not begin at a multiple of 16 bytes, if that makes a difference.
  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const Plan plan(d, p, point);
    const std::string source = "primitives/convolution/cuda/few_channels";
    std::vector<KernelSpec> specs = {{source + "_packing.cu", "conv_few_channels_packing", {}}};
    specs[0].instantiation = fmt::format("sm90::ConvFewChannelsPacking<{}>", plan.row_tiles);
    const auto add = [&](const char* kind) {
      KernelSpec spec{source + ".cu", "conv_few_channels", {}};
      spec.instantiation = fmt::format("sm90::ConvFewChannels<sm90::{}, sm90::{}, {}, {}, {}, {}, {}>",
                                       p.w.type == DataType::kHalf ? "Half" : "Bfloat16", kind, plan.row_tiles,
                                       plan.planes, p.epilogue.bias, p.epilogue.scale, p.epilogue.activation);
      specs.push_back(spec);
    };
    add(plan.shape.takes_pixels ? "kPixels" : plan.matrices ? "kMatrices" : "kPairs");
    if (plan.shape.takes_pixels) add("kElements");
    return specs;
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint& point, const Kernels& built) const override {
    const Plan plan(d, p, point);
    const Launch packing = launch_shape(kPackingThreads, ceil_div(plan.packed_count, kPackingThreads));
    const std::int64_t row_blocks = plan.shape.row_blocks;
    const std::int64_t most = std::max<std::int64_t>(1, plan.resident * d.units / row_blocks);
    Launch where = launch_shape(kThreads, std::min(most, plan.all_tiles) * row_blocks);
    where.shared_bytes = static_cast<std::uint32_t>(plan.shared_bytes);
    where.programmatic = gpu::launches_early(d);
    const bool data = direction_ == Direction::kBackwardData;
    return [built, p, shape = plan.shape, packing, where, data](Stream& stream, const Args& a) {
      const void* const source = data ? a.y : a.x;
      const bool is_aligned = reinterpret_cast<std::uintptr_t>(source) % 16 == 0;
      void* const packed = gpu::align_up(a.workspace, 16);
      launch(stream, *built[0], packing, PackingArguments{a.w, packed, shape});
      Arguments arguments{source, a.w, packed, cuda::hopper_parameters(p, a), data ? a.x : a.y, shape};
      arguments.shape.scalars = cuda::hopper_scalars(a);
      launch(stream, is_aligned ? *built[1] : *built.back(), where, arguments);
    };
  }

 private:
  Direction direction_;
};

}  // namespace

Verdict cuda::check_few_channels(const DeviceInfo& d, const Problem& p, std::int64_t most) {
  constexpr std::int64_t kFew = 32, kMostTap = 1 << 12, kMostSpace = std::int64_t{1} << 40;
  POLYMIO_REQUIRE(has_matrix_units(d), "needs matrix units of sm80 or later");
  POLYMIO_REQUIRE(has_16_bits(p), "not all floats of 16 bits");
  POLYMIO_REQUIRE(p.groups() == 1, "groups");
  POLYMIO_REQUIRE_MOST(std::min(p.c(), p.k()), kFew, "channels on the side that has fewer");
  POLYMIO_REQUIRE_MOST(std::max({p.n(), p.c(), p.k()}), most, "images or channels");
  for (int i = 0; i < p.spatial(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t dilation = p.filter(i) > 1 ? p.geometry.dilation[at] : 1;
    POLYMIO_REQUIRE_MOST(std::max(p.in(i), p.out(i)), most, "positions along an axis");
    for (const std::int64_t v :
         {p.filter(i), std::int64_t{p.geometry.stride[at]}, std::int64_t{p.geometry.pad[at]}, dilation})
      POLYMIO_REQUIRE_MOST(v, kMostTap, "taps, stride, padding or dilation");
  }
  for (const TensorDesc* t : {&p.x, &p.y}) POLYMIO_REQUIRE_MOST(t->space(), kMostSpace, "elements of a tensor");
  return {};
}

bool cuda::few_channels_divides(const TensorDesc& t, int unit, int dimension) {
  for (int i = 0; i < t.rank; ++i)
    if (i != dimension && t.lens[static_cast<std::size_t>(i)] > 1 && t.strides[static_cast<std::size_t>(i)] % unit != 0)
      return false;
  return true;
}

int cuda::few_channels_load_unit(const TensorDesc& t, int unit) {
  constexpr int kPixels = 8;
  if (t.strides[1] == 1) return t.lens[1] % unit == 0 && few_channels_divides(t, unit, 1) ? unit : 2;
  const auto width = static_cast<std::size_t>(t.rank - 1);
  const bool is_line = unit == kPixels && t.strides[width] == 1 && t.lens[width] % kPixels == 0;
  return is_line && few_channels_divides(t, kPixels, t.rank - 1) ? kPixels : 2;
}

std::unique_ptr<const SolverBase> cuda_few_channels(const SolverInfo& info, Direction d) {
  return std::make_unique<CudaFewChannels>(info, d);
}

}  // namespace polymio::convolution
