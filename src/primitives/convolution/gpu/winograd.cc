// ConvGpuWinograd: 3x3 filters with stride 1 by transforms and one matrix product per point: F(2x2,3x3), and F(4x4,3x3)
// where sums are long enough that the error of its transforms does not show. Computes in fp32. The workspace holds the
// transformed tensors, of one slice of the tiles at a time.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <iterator>
#include <memory>
#include <fmt/format.h>

#include "base/math.h"
#include "primitives/convolution/gpu/product.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {
namespace {

constexpr std::int64_t kThreads = 256;
constexpr std::int64_t kLine = 16;            // floats: alignment of the matrices
constexpr int kLimits[] = {512, 128, 32, 8};  // MiB of workspace that slices are cut for
constexpr std::int64_t kMost = std::int64_t{1} << 30;

// As in winograd.cl.
struct Strides {
  kernels::i64 image, channel, row, col;
};
struct Tiles {
  int channels, height, width, pad_h, pad_w, tiles_h, tiles_w, tiles, first, all;
};

/// Transformed tensors: (point, channel, tile) of src and dst for one slice, (point, output, input) of w.
struct Plan {
  int tile = 4;
  bool last = false;
  std::int64_t points = 36, sources = 0, outputs = 0;  // channels
  Tiles src{}, dst{};
  Problem product;  // of a slice

  std::int64_t slices() const { return ceil_div(src.all, src.tiles); }
  std::int64_t src_size() const { return points * sources * src.tiles; }
  std::int64_t dst_size() const { return points * outputs * src.tiles; }
  std::int64_t filter_size() const { return points * outputs * sources; }
};

std::int64_t tiles_of(const Problem& p, int tile) {
  const TensorDesc& dst = p.direction == Direction::kBackwardData ? p.x : p.y;
  return p.n() * ceil_div(dst.lens[2], tile) * ceil_div(dst.lens[3], tile);
}

std::int64_t filter_bytes(const Problem& p, int tile) { return 4 * (tile + 2) * (tile + 2) * p.k() * p.c(); }

/// Bytes of workspace for the tiles of a slice if `mib` are allowed: the product may keep a copy of the filters, and
/// partial results.
std::int64_t slice_bytes(const Problem& p, int tile, int mib) {
  return (std::int64_t{mib} << 20) * 15 / 16 - 2 * filter_bytes(p, tile);
}

/// Tiles per slice.
std::int64_t slice_of(const Problem& p, int tile, int mib) {
  constexpr std::int64_t kLeast = 64, kStep = 16;
  const std::int64_t per_tile = 4 * (tile + 2) * (tile + 2) * (p.k() + p.c()), all = tiles_of(p, tile);
  const std::int64_t most = std::max(slice_bytes(p, tile, mib) / per_tile, kLeast);
  return most >= all ? all : round_up(ceil_div(all, ceil_div(all, most)), kStep);
}

TensorDesc matrix(const Plan& plan, std::int64_t channels) {
  const std::int64_t all = plan.points * channels, tiles = plan.src.tiles;
  const std::int64_t lens[] = {1, all, tiles}, first[] = {all * tiles, tiles, 1}, last[] = {all * tiles, 1, all};
  return make_tensor(DataType::kFloat, lens, plan.last ? last : first);
}

/// Backward data is a forward convolution of dy with flipped filters.
Plan plan_of(const Problem& p, int tile, int mib) {
  using gpu::narrow;
  const bool data = p.direction == Direction::kBackwardData;
  Plan plan;
  plan.tile = tile;
  plan.points = (tile + 2) * (tile + 2);
  plan.sources = data ? p.k() : p.c();
  plan.outputs = data ? p.c() : p.k();
  plan.last = p.x.is_channels_last() && p.y.is_channels_last();
  const TensorDesc &src = data ? p.y : p.x, &dst = data ? p.x : p.y;
  const auto pad = [&](std::size_t i) { return narrow(data ? 2 - p.geometry.pad[i] : p.geometry.pad[i]); };
  const int rows = narrow(ceil_div(dst.lens[2], tile)), cols = narrow(ceil_div(dst.lens[3], tile));
  const int slice = narrow(slice_of(p, tile, mib)), all = narrow(tiles_of(p, tile));
  plan.src = {
      narrow(plan.sources), narrow(src.lens[2]), narrow(src.lens[3]), pad(0), pad(1), rows, cols, slice, 0, all};
  plan.dst = {narrow(plan.outputs), narrow(dst.lens[2]), narrow(dst.lens[3]), 0, 0, rows, cols, slice, 0, all};
  Problem& q = plan.product;
  q.direction = p.direction == Direction::kBackwardWeights ? p.direction : Direction::kForward;
  q.geometry = {1, {}, {1, 1, 1}, {1, 1, 1}, plan.points};
  q.x = matrix(plan, plan.sources);
  q.y = matrix(plan, plan.outputs);
  const std::int64_t filters[] = {plan.points * plan.outputs, plan.sources, 1};
  q.w = make_tensor(DataType::kFloat, filters, {});
  return plan;
}

/// Fewest products per result for which the error of the transforms stays within the bound of a direct sum. Measured.
struct LeastSums {
  std::int64_t small, large;  // tiles
};
constexpr LeastSums kChannels = {8, 64}, kPixels = {256, 1 << 14};

bool is_exact_enough(const Problem& p, int tile) {
  const bool weights = p.direction == Direction::kBackwardWeights;
  const LeastSums& least = weights ? kPixels : kChannels;
  const std::int64_t sums = weights ? p.n() * p.out(0) * p.out(1) : p.direction == Direction::kForward ? p.c() : p.k();
  return sums >= (tile == 2 ? least.small : least.large);
}

/// Whether the filters leave room for tiles.
bool fits(const Problem& p, int tile) {
  constexpr std::int64_t kLeastBytes = 8 << 20;
  return slice_bytes(p, tile, kLimits[0]) >= kLeastBytes;
}

bool allows(const Problem& p, int tile) { return is_exact_enough(p, tile) && fits(p, tile); }

int default_tile(const Problem& p) { return allows(p, 4) ? 4 : 2; }

/// The slices of a plan, one after the other. The last may have fewer tiles: its others are zeros.
struct Slice {
  explicit Slice(const Plan& plan) : src(plan.src), dst(plan.dst) {}
  int first() const { return src.first; }
  void next() { dst.first = src.first += src.tiles; }

  Tiles src, dst;
};

/// Offsets of the matrices in the workspace, in floats.
struct WorkspaceLayout {
  std::int64_t src, dst, filters, end;
};

WorkspaceLayout layout_of(const Plan& plan, const gpu::Product& product) {
  const auto up = [](std::int64_t v) { return ceil_div(v, kLine) * kLine; };
  WorkspaceLayout at{};
  at.src = up(ceil_div(static_cast<std::int64_t>(product.workspace()), 4));
  at.dst = at.src + up(plan.src_size());
  at.filters = at.dst + up(plan.dst_size());
  at.end = at.filters + up(plan.filter_size());
  return at;
}

Strides strides_of(const TensorDesc& t) { return {t.strides[0], t.strides[1], t.strides[2], t.strides[3]}; }

class GpuWinograd final : public GpuSolver<Problem> {
 public:
  GpuWinograd(const SolverInfo& info, Direction d) : GpuSolver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    if (const Verdict v = gpu::check_planes(d, p, direction_); !v) return v;
    POLYMIO_REQUIRE(p.spatial() == 2 && p.filter(0) == 3 && p.filter(1) == 3, "the filter is not 3x3");
    const Geometry& g = p.geometry;
    POLYMIO_REQUIRE(g.stride[0] == 1 && g.stride[1] == 1 && g.dilation[0] == 1 && g.dilation[1] == 1,
                    "stride or dilation is not 1");
    POLYMIO_REQUIRE(g.groups == 1, "groups");
    POLYMIO_REQUIRE(is_exact_enough(p, 2), "too few products per result for the error of the transforms");
    POLYMIO_REQUIRE(p.c() <= kMost / p.k() && fits(p, 2), "transformed filters too large");
    POLYMIO_REQUIRE_MOST(tiles_of(p, 2), kMost, "tiles");
    return gpu::Product(d, plan_of(p, default_tile(p), kLimits[0]).product, 0).check();
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    constexpr double kLaunchUs = 3, kMemory = 0.5;
    const Plan plan = plan_at(p, point);
    const auto slices = static_cast<double>(plan.slices());
    const double moved =
        slices * static_cast<double>(plan.src_size() + plan.dst_size()) + static_cast<double>(plan.filter_size());
    return (1 + 2 * slices) * kLaunchUs + slices * gpu::Product(d, plan.product, point[1]).predict(d) +
           (4 * moved + gpu::tensor_bytes(p)) / (1e3 * d.bandwidth_gbs * kMemory);
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override {
    return {{"tile", {2, 4}}, {"product", {0, 1, 2, 3, 4}}, {"limit_mib", {std::begin(kLimits), std::end(kLimits)}}};
  }

  bool is_valid(const DeviceInfo&, const Problem& p, const TunePoint& point) const override {
    if (point.size() != 3 || (point[0] != 2 && point[0] != 4) || !allows(p, point[0])) return false;
    if (point[1] < 0 || point[1] >= gpu::Product::kTiles) return false;
    // Each limit has its own slices.
    const auto* const limit = std::find(std::begin(kLimits), std::end(kLimits), point[2]);
    return limit != std::end(kLimits) &&
           (limit == std::begin(kLimits) || slice_of(p, point[0], limit[0]) < slice_of(p, point[0], limit[-1]));
  }

  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    const int tile = default_tile(p);
    return {tile, gpu::Product::best_tile(d, plan_of(p, tile, kLimits[0]).product), kLimits[0]};
  }

  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const Plan plan = plan_at(p, point);
    return static_cast<std::size_t>(layout_of(plan, {d, plan.product, point[1]}).end) * sizeof(float);
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const Plan plan = plan_at(p, point);
    const bool weights = direction_ == Direction::kBackwardWeights;
    std::vector<KernelSpec> specs;
    const std::vector<std::string> options = {
        fmt::format("-DIN={}", name_of(p.x.type)), fmt::format("-DOUT={}", name_of(p.x.type)),
        fmt::format("-DTILE={}", plan.tile), fmt::format("-DLAST={:d}", plan.last)};
    for (const char* entry : {"winograd_source", weights ? "winograd_slopes" : "winograd_filters",
                              weights ? "winograd_gradient" : "winograd_result"})
      specs.push_back({"primitives/convolution/gpu/winograd.cl", entry, options});
    for (KernelSpec& s : gpu::Product(d, plan.product, point[1]).kernels()) specs.push_back(std::move(s));
    return specs;
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint& point, const Kernels& built) const override {
    const Plan plan = plan_at(p, point);
    const gpu::Product product(d, plan.product, point[1]);
    const WorkspaceLayout at = layout_of(plan, product);
    if (direction_ == Direction::kBackwardWeights) return weights_invoker(plan, product, at, p, built);
    const bool data = direction_ == Direction::kBackwardData;
    const Strides src = strides_of(data ? p.y : p.x), dst = strides_of(data ? p.x : p.y);
    Strides filter = strides_of(p.w);  // outputs, inputs
    if (data) std::swap(filter.image, filter.channel);
    return [=](Stream& stream, const Args& a) {
      const gpu::Operands o = gpu::operands_of(p, a);
      const Buffer workspace(a.workspace);
      const int outputs = plan.dst.channels, inputs = plan.src.channels;
      launch(stream, *built[1], blocks(std::int64_t{outputs} * inputs), o.second, workspace, at.filters, outputs,
             inputs, data ? 1 : 0, filter);
      for (Slice slice(plan); slice.first() < plan.src.all; slice.next()) {
        launch(stream, *built[0], blocks(std::int64_t{inputs} * slice.src.tiles), o.first, workspace, at.src, slice.src,
               src);
        product.run(stream, built, 3, product_call(a, at.src, at.filters, at.dst, 0));
        launch(stream, *built[2], blocks(std::int64_t{outputs} * slice.dst.tiles), workspace, o.output, at.dst,
               slice.dst, dst, static_cast<float>(a.alpha), static_cast<float>(a.beta));
      }
    };
  }

 private:
  static Launch blocks(std::int64_t threads) { return launch_shape(kThreads, ceil_div(threads, kThreads)); }

  static Plan plan_at(const Problem& p, const TunePoint& point) { return plan_of(p, point[0], point[2]); }

  static gpu::Product::Call product_call(const Args& a, std::int64_t first, std::int64_t second, std::int64_t output,
                                         float beta) {
    const Buffer w(a.workspace);
    return {.tensors = {w, w, w},
            .workspace = w,
            .alpha = 1,
            .beta = beta,
            .aligned = reinterpret_cast<std::uintptr_t>(a.workspace) % 16 == 0,
            .first_at = first,
            .second_at = second,
            .output_at = output};
  }

  static Invoker weights_invoker(const Plan& plan, const gpu::Product& product, const WorkspaceLayout& at,
                                 const Problem& p, const Kernels& built) {
    return [=, x = strides_of(p.x), y = strides_of(p.y), w = strides_of(p.w)](Stream& stream, const Args& a) {
      const Buffer workspace(a.workspace);
      const int outputs = plan.dst.channels, inputs = plan.src.channels;
      for (Slice slice(plan); slice.first() < plan.src.all; slice.next()) {
        launch(stream, *built[0], blocks(std::int64_t{inputs} * slice.src.tiles), Buffer(a.x), workspace, at.src,
               slice.src, x);
        launch(stream, *built[1], blocks(std::int64_t{outputs} * slice.dst.tiles), Buffer(a.y), workspace, at.dst,
               slice.dst, y);
        product.run(stream, built, 3, product_call(a, at.src, at.dst, at.filters, slice.first() == 0 ? 0 : 1));
      }
      launch(stream, *built[2], blocks(std::int64_t{outputs} * inputs), workspace, Buffer(a.w), at.filters, outputs,
             inputs, w, static_cast<float>(a.alpha), static_cast<float>(a.beta));
    };
  }

  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> gpu_winograd(const SolverInfo& info, Direction d) {
  return std::make_unique<GpuWinograd>(info, d);
}

}  // namespace polymio::convolution
