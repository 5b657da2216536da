// ConvGpuFft: large filters with stride 1, forward and backward data, by transforms of 16 x 16 tiles and one complex
// matrix product per frequency, computed as a real one of twice the channels. Computes in fp32. The workspace holds the
// spectra.
// SPDX-License-Identifier: MIT
#include <memory>
#include <fmt/format.h>

#include <algorithm>

#include "base/math.h"
#include "primitives/convolution/gpu/product.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {
namespace {

// As in fft.cl.
constexpr std::int64_t kSide = 16, kFrequencies = 9 * 16, kThreads = 256, kTilesOfBlock = 16;
struct Strides {
  kernels::i64 image, channel, row, col;
};
struct Tiling {
  int channels, height, width, pad_h, pad_w, step_h, step_w, tiles_h, tiles_w, tiles;
};

constexpr std::int64_t kLine = 16;  // floats: alignment of the spectra
constexpr std::int64_t kMinTaps = 5, kMaxTaps = 12;
constexpr std::int64_t kMostWorkspace = 512 << 20;

/// Backward data is a forward convolution of dy with flipped filters.
struct Plan {
  Tiling src{}, dst{};
  Problem product;
  std::int64_t src_size() const { return product.x.count(); }
  std::int64_t dst_size() const { return product.y.count(); }
  std::int64_t filter_size() const { return product.w.count(); }
};

Plan plan_of(const Problem& p) {
  using gpu::narrow;
  const bool data = p.direction == Direction::kBackwardData;
  const TensorDesc &src = data ? p.y : p.x, &dst = data ? p.x : p.y;
  const std::int64_t sources = src.lens[1], outputs = dst.lens[1];
  const auto pad = [&](int i) {
    const std::int64_t given = p.geometry.pad[static_cast<std::size_t>(i)];
    return narrow(data ? p.filter(i) - 1 - given : given);
  };
  const int step_h = narrow(kSide + 1 - p.filter(0)), step_w = narrow(kSide + 1 - p.filter(1));
  const int rows = narrow(ceil_div(dst.lens[2], step_h)), cols = narrow(ceil_div(dst.lens[3], step_w));
  const int tiles = narrow(p.n()) * rows * cols;
  Plan plan;
  plan.src = {
      narrow(sources), narrow(src.lens[2]), narrow(src.lens[3]), pad(0), pad(1), step_h, step_w, rows, cols, tiles};
  plan.dst = {narrow(outputs), narrow(dst.lens[2]), narrow(dst.lens[3]), 0, 0, step_h, step_w, rows, cols, tiles};
  Problem& q = plan.product;
  q.direction = Direction::kForward;
  q.geometry = {1, {}, {1, 1, 1}, {1, 1, 1}, kFrequencies};
  const std::int64_t x[] = {1, kFrequencies * 2 * sources, tiles}, y[] = {1, kFrequencies * 2 * outputs, tiles};
  const std::int64_t w[] = {kFrequencies * 2 * outputs, 2 * sources, 1};
  q.x = make_tensor(DataType::kFloat, x, {});
  q.y = make_tensor(DataType::kFloat, y, {});
  q.w = make_tensor(DataType::kFloat, w, {});
  return plan;
}

/// Offsets of the spectra in the workspace, in floats.
struct WorkspaceLayout {
  std::int64_t src, dst, filters, end;
};

WorkspaceLayout layout_of(const Plan& plan, const gpu::Product& product) {
  WorkspaceLayout at{};
  at.src = round_up(ceil_div(static_cast<std::int64_t>(product.workspace()), 4), kLine);
  at.dst = at.src + round_up(plan.src_size(), kLine);
  at.filters = at.dst + round_up(plan.dst_size(), kLine);
  at.end = at.filters + round_up(plan.filter_size(), kLine);
  return at;
}

std::int64_t bytes_of(const Plan& plan, const gpu::Product& product) { return 4 * layout_of(plan, product).end; }

Strides strides_of(const TensorDesc& t) { return {t.strides[0], t.strides[1], t.strides[2], t.strides[3]}; }

class GpuFft final : public GpuSolver<Problem> {
 public:
  GpuFft(const SolverInfo& info, Direction d) : GpuSolver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    if (const Verdict v = gpu::check_planes(d, p, direction_); !v) return v;
    POLYMIO_REQUIRE(p.spatial() == 2, "not two spatial dimensions");
    POLYMIO_REQUIRE(std::max(p.filter(0), p.filter(1)) >= kMinTaps, "the filter is smaller than 5 in both dimensions");
    POLYMIO_REQUIRE_MOST(std::max(p.filter(0), p.filter(1)), kMaxTaps, "taps of the filter in a dimension");
    const Geometry& g = p.geometry;
    POLYMIO_REQUIRE(g.stride[0] == 1 && g.stride[1] == 1 && g.dilation[0] == 1 && g.dilation[1] == 1,
                    "stride or dilation is not 1");
    POLYMIO_REQUIRE(g.groups == 1, "groups");
    constexpr double kMax = 1 << 30;
    const std::int64_t rows = ceil_div(std::max(p.in(0), p.out(0)), kSide + 1 - p.filter(0));
    const std::int64_t cols = ceil_div(std::max(p.in(1), p.out(1)), kSide + 1 - p.filter(1));
    const auto channels = static_cast<double>(std::max(p.c(), p.k()));
    POLYMIO_REQUIRE(2.0 * kFrequencies * static_cast<double>(p.n() * rows * cols) * channels <= kMax,
                    "spectra too large");
    POLYMIO_REQUIRE(4.0 * kFrequencies * static_cast<double>(p.c()) * static_cast<double>(p.k()) <= kMax,
                    "spectra of the filters too large");
    const Plan plan = plan_of(p);
    const gpu::Product product(d, plan.product, 0);
    if (const Verdict v = product.check(); !v) return v;
    POLYMIO_REQUIRE_MOST(bytes_of(plan, product), kMostWorkspace, "bytes of spectra");
    return {};
  }

  // The rounding errors of a tile, also of its largest elements, affect all of its results.
  ErrorClass error_class(const Problem&) const override { return ErrorClass::kApproximate; }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    constexpr double kLaunchUs = 3, kMemory = 0.3;
    const Plan plan = plan_of(p);
    const double moved = 4.0 * static_cast<double>(plan.src_size() + plan.dst_size() + plan.filter_size());
    return 3 * kLaunchUs + gpu::Product(d, plan.product, point[0]).predict(d) +
           (moved + gpu::tensor_bytes(p)) / (1e3 * d.bandwidth_gbs * kMemory);
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override { return {{"product", {0, 1, 2, 3, 4}}}; }

  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    if (point.size() != 1 || point[0] < 0 || point[0] >= gpu::Product::kTiles) return false;
    const Plan plan = plan_of(p);
    return bytes_of(plan, {d, plan.product, point[0]}) <= kMostWorkspace;
  }

  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    const Plan plan = plan_of(p);
    const int best = gpu::Product::best_tile(d, plan.product);
    return {bytes_of(plan, {d, plan.product, best}) <= kMostWorkspace ? best : 0};
  }

  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const Plan plan = plan_of(p);
    return static_cast<std::size_t>(bytes_of(plan, {d, plan.product, point[0]}));
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const std::vector<std::string> options = {fmt::format("-DIN={}", name_of(p.x.type)),
                                              fmt::format("-DOUT={}", name_of(p.x.type))};
    std::vector<KernelSpec> specs;
    for (const char* entry : {"fft_source", "fft_filters", "fft_result"})
      specs.push_back({"primitives/convolution/gpu/fft.cl", entry, options});
    for (KernelSpec& s : gpu::Product(d, plan_of(p).product, point[0]).kernels()) specs.push_back(std::move(s));
    return specs;
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint& point, const Kernels& built) const override {
    const Plan plan = plan_of(p);
    const gpu::Product product(d, plan.product, point[0]);
    const WorkspaceLayout at = layout_of(plan, product);
    const bool data = direction_ == Direction::kBackwardData;
    const Strides src = strides_of(data ? p.y : p.x), dst = strides_of(data ? p.x : p.y);
    Strides filter = strides_of(p.w);  // outputs, inputs
    if (data) std::swap(filter.image, filter.channel);
    const int filter_h = static_cast<int>(p.filter(0)), filter_w = static_cast<int>(p.filter(1));
    return [=](Stream& stream, const Args& a) {
      const gpu::Operands o = gpu::operands_of(p, a);
      const Buffer w(a.workspace);
      const int outputs = plan.dst.channels, inputs = plan.src.channels;
      launch(stream, *built[0], blocks(std::int64_t{inputs} * plan.src.tiles), o.first, w, at.src, plan.src, src);
      launch(stream, *built[1], blocks(std::int64_t{outputs} * inputs), o.second, w, at.filters, outputs, inputs,
             filter_h, filter_w, data ? 1 : 0, filter);
      product.run(stream, built, 3,
                  {.tensors = {w, w, w},
                   .workspace = w,
                   .alpha = 1,
                   .beta = 0,
                   .aligned = reinterpret_cast<std::uintptr_t>(a.workspace) % 16 == 0,
                   .first_at = at.src,
                   .second_at = at.filters,
                   .output_at = at.dst});
      launch(stream, *built[2], blocks(std::int64_t{outputs} * plan.dst.tiles), w, o.output, at.dst, plan.dst, dst,
             static_cast<float>(a.alpha), static_cast<float>(a.beta));
    };
  }

 private:
  /// The grid for `transforms` transforms.
  static Launch blocks(std::int64_t transforms) { return launch_shape(kThreads, ceil_div(transforms, kTilesOfBlock)); }

  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> gpu_fft(const SolverInfo& info, Direction d) {
  return std::make_unique<GpuFft>(info, d);
}

}  // namespace polymio::convolution
