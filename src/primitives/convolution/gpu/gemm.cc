// ConvGpuGemm: the im2col matrix in the workspace and a product with it; a pointwise convolution is a product as it is.
// One to three spatial dimensions, any strides, dilations and groups, floats of 16 and 32 bits.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "primitives/convolution/gpu/product.h"
#include "primitives/convolution/solvers.h"

namespace polymio::convolution {
namespace {

constexpr std::int64_t kThreads = 256;
constexpr std::size_t kLine = 64;  // bytes: where the matrix begins in the workspace

/// As in columns.cl.
struct ColumnOrder {
  int taps_first, pixels_innermost;
};

std::int64_t taps_of(const Problem& p) {
  std::int64_t taps = 1;
  for (int i = 0; i < p.spatial(); ++i) taps *= p.filter(i);
  return taps;
}

std::int64_t pixels_of(const Problem& p) {
  std::int64_t pixels = 1;
  for (int i = 0; i < p.spatial(); ++i) pixels *= p.out(i);
  return pixels;
}

bool packed(const TensorDesc& t) { return t.is_channels_first() || t.is_channels_last(); }

/// x is the matrix.
bool is_pointwise(const Problem& p) {
  const auto& g = p.geometry;
  bool plain = taps_of(p) == 1 && p.x.is_channels_last() == p.y.is_channels_last() && packed(p.x);
  for (std::size_t i = 0; i < static_cast<std::size_t>(p.spatial()); ++i)
    plain = plain && g.pad[i] == 0 && g.stride[i] == 1;
  return plain;
}

/// (images, channels, pixels) in the order that y has.
TensorDesc matrix(DataType type, std::int64_t images, std::int64_t channels, std::int64_t pixels, bool last) {
  const std::int64_t lens[] = {images, channels, pixels};
  const std::int64_t first_strides[] = {channels * pixels, pixels, 1},
                     last_strides[] = {channels * pixels, 1, channels};
  return make_tensor(type, lens, last ? last_strides : first_strides);
}

struct Plan {
  Problem product;  // a 1x1 convolution of the matrix
  bool pointwise = false;
  ColumnOrder order{};
};

Plan plan_of(const Problem& p) {
  const std::int64_t taps = taps_of(p), pixels = pixels_of(p), depth = p.c() / p.groups() * taps;
  const bool last = p.y.is_channels_last();
  Plan plan{p, is_pointwise(p), {!p.w.is_channels_first(), !last}};
  // Gradients of single taps are added up in single precision.
  const bool sums = p.direction == Direction::kBackwardData && !plan.pointwise;
  plan.product.geometry = {1, {}, {1, 1, 1}, {1, 1, 1}, p.groups()};
  plan.product.x = matrix(sums ? DataType::kFloat : p.x.type, p.n(), p.c() * taps, pixels, last);
  plan.product.y = matrix(p.y.type, p.n(), p.k(), pixels, last);
  plan.product.w = matrix(p.w.type, p.k(), depth, 1, false);
  return plan;
}

std::size_t matrix_at(const gpu::Product& product) { return (product.workspace() + kLine - 1) / kLine * kLine; }

class GpuGemm final : public GpuSolver<Problem> {
 public:
  constexpr explicit GpuGemm(Direction d) : direction_(d) {}

  SolverInfo info() const override {
    static constexpr const char* kNames[] = {"ConvGpuGemmFwd", "ConvGpuGemmBwd", "ConvGpuGemmWrw"};
    const auto i = static_cast<unsigned>(direction_);
    return gpu::portable_info(118 + i, kNames[i], Algorithm::kGemm);
  }

  Verdict check(const DeviceInfo& d, const Problem& p) const override {
    constexpr double kMost = 1 << 30;
    POLYMIO_REQUIRE(p.direction == direction_, "serves another direction");
    const DataType t = p.x.type;
    POLYMIO_REQUIRE(t == DataType::kFloat || t == DataType::kHalf || t == DataType::kBFloat16,
                    "not a float of 16 or 32 bits");
    POLYMIO_REQUIRE(p.all_types(t), "mixed types");
    POLYMIO_REQUIRE(!p.depthwise() || p.k() != p.c(), "depthwise: products of one row");
    if (const Verdict v = gpu::check_types(d, p); !v) return v;
    POLYMIO_REQUIRE(packed(p.y) && packed(p.w), "y or w is neither packed NCHW nor packed NHWC");
    const double depth = static_cast<double>(p.c()) * static_cast<double>(taps_of(p));
    POLYMIO_REQUIRE(depth * static_cast<double>(pixels_of(p)) <= kMost, "the matrix of an image is too large");
    for (int i = 0; i < p.spatial(); ++i) {
      const auto axis = static_cast<std::size_t>(i);
      POLYMIO_REQUIRE(p.geometry.pad[axis] <= kMost / 4 && p.geometry.stride[axis] <= kMost,
                      "padding or stride too large");
      POLYMIO_REQUIRE(static_cast<double>(p.geometry.dilation[axis]) * static_cast<double>(p.filter(i)) <= kMost / 4,
                      "the filter reaches too far");
    }
    POLYMIO_REQUIRE(static_cast<double>(p.x.space()) / static_cast<double>(p.n()) <= kMost,
                    "an image of x is too large");
    const Plan plan = plan_of(p);
    if (const Verdict v = gpu::check_sizes(plan.product); !v) return v;
    return gpu::Product(d, plan.product, 0).check();
  }

  double predict(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    constexpr double kLaunchUs = 3, kMemory = 0.3;
    const Plan plan = plan_of(p);
    const double us = gpu::Product(d, plan.product, point[0]).predict(d);
    const double bytes = static_cast<double>(plan.product.x.bytes()) + gpu::tensor_bytes(p);
    return us + (plan.pointwise ? 0 : kLaunchUs + bytes / (1e3 * d.bandwidth_gbs * kMemory));
  }

  TuneSpace knobs(const DeviceInfo&, const Problem&) const override {
    std::vector<int> tiles(gpu::Product::kTiles);
    std::iota(tiles.begin(), tiles.end(), 0);
    return {{"tile", tiles}};
  }

  bool accepts(const DeviceInfo&, const Problem&, const TunePoint& point) const override {
    return point.size() == 1 && point[0] >= 0 && point[0] < gpu::Product::kTiles;
  }

  TunePoint start(const DeviceInfo& d, const Problem& p) const override {
    return {gpu::Product::best_tile(d, plan_of(p).product)};
  }

  std::size_t workspace(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const Plan plan = plan_of(p);
    const gpu::Product product(d, plan.product, point[0]);
    return plan.pointwise ? product.workspace() : matrix_at(product) + plan.product.x.bytes();
  }

  std::vector<KernelSpec> kernels(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const Plan plan = plan_of(p);
    std::vector<KernelSpec> specs = gpu::Product(d, plan.product, point[0]).kernels();
    const char* type = name_of(p.x.type);
    if (!plan.pointwise)
      specs.push_back({"primitives/convolution/gpu/columns.cl",
                       direction_ == Direction::kBackwardData ? "col2im" : "im2col",
                       {fmt::format("-DIN={}", type), fmt::format("-DOUT={}", type)}});
    return specs;
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint& point, const Kernels& built) const override {
    const Plan plan = plan_of(p);
    const gpu::Product product(d, plan.product, point[0]);
    if (plan.pointwise) {
      return [p, product, built](Stream& stream, const Args& a) {
        product.run(stream, built, 0, call(p, a, gpu::aligned(a)));
      };
    }
    if (direction_ == Direction::kBackwardData) return back_invoker(plan, p, product, built);
    const auto at = static_cast<std::int64_t>(matrix_at(product) / size_of(p.x.type));
    const Launch shape = launch_for(plan.product.x.count() / p.n(), p.n());
    return [p, plan, product, built, at, shape, sizes = gpu::sizes_of(p), steps = gpu::steps_of(p),
            strides = gpu::strides_of(p)](Stream& stream, const Args& a) {
      const Buffer workspace(a.workspace);
      launch(stream, *built.back(), shape, Buffer(a.x), workspace, at, sizes, steps, strides, plan.order);
      auto c = call(p, a, gpu::aligned(a) && is_aligned(a.workspace));
      c.tensors.first = workspace, c.first_at = at;
      product.run(stream, built, 0, c);
    };
  }

 private:
  static bool is_aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

  static gpu::Product::Call call(const Problem& p, const Args& a, bool aligned) {
    return {.tensors = gpu::operands_of(p, a),
            .workspace = a.workspace,
            .alpha = static_cast<float>(a.alpha),
            .beta = static_cast<float>(a.beta),
            .aligned = aligned};
  }

  /// Threads for the elements of an image; each goes through images, since these have their indices in common.
  static Launch launch_for(std::int64_t elements, std::int64_t images) {
    constexpr std::int64_t kMostBlocks = 1 << 16, kEnough = 1 << 13;
    const auto blocks = std::clamp<std::int64_t>((elements + kThreads - 1) / kThreads, 1, kMostBlocks);
    return gpu::launch_shape(kThreads, blocks, std::clamp<std::int64_t>(kEnough / blocks, 1, images));
  }

  static Invoker back_invoker(const Plan& plan, const Problem& p, const gpu::Product& product, const Kernels& built) {
    const auto at = static_cast<std::int64_t>(matrix_at(product) / sizeof(float));
    const Launch shape = launch_for(p.x.count() / p.n(), p.n());
    return [p, plan, product, built, at, shape, sizes = gpu::sizes_of(p), steps = gpu::steps_of(p),
            strides = gpu::strides_of(p)](Stream& stream, const Args& a) {
      const Buffer workspace(a.workspace);
      auto c = call(p, a, gpu::aligned(a) && is_aligned(a.workspace));
      const float alpha = c.alpha, beta = c.beta;
      c.tensors.output = workspace, c.output_at = at, c.alpha = 1, c.beta = 0;
      product.run(stream, built, 0, c);
      launch(stream, *built.back(), shape, workspace, Buffer(a.x), at, sizes, steps, strides, plan.order, alpha, beta);
    };
  }

  Direction direction_;
};

}  // namespace

const Solver<Problem>& gpu_gemm(Direction d) {
  static constexpr GpuGemm kSolvers[] = {GpuGemm(Direction::kForward), GpuGemm(Direction::kBackwardData),
                                         GpuGemm(Direction::kBackwardWeights)};
  return kSolvers[static_cast<int>(d)];
}

}  // namespace polymio::convolution
