// ConvGpuImplicitGemm: convolution as a tiled matrix product; tiles of the im2col matrix exist in local memory only.
// One or two spatial dimensions, any strides and groups, fp32, fp16 and bf16, int8 forward. Weights are packed into the
// workspace; if there are few tiles, K is split and the partial results are summed in a fixed order.
// SPDX-License-Identifier: MIT
#include <memory>
#include <numeric>

#include "primitives/convolution/gpu/product.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {
namespace {

class GpuImplicitGemm final : public GpuSolver<Problem> {
 public:
  GpuImplicitGemm(const SolverInfo& info, Direction d) : GpuSolver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    const bool integers = direction_ == Direction::kForward && p.x.type == DataType::kInt8;
    const Verdict common = integers ? check_integers(d, p) : gpu::check_planes(d, p, direction_);
    if (!common) return common;
    POLYMIO_REQUIRE(direction_ != Direction::kBackwardWeights || p.w.is_channels_first() || p.w.is_channels_last(),
                    "w is neither packed NCHW nor packed NHWC");
    return gpu::Product(d, p, 0).check();
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return gpu::Product(d, p, point[0]).predict(d);
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override {
    std::vector<int> tiles(gpu::Product::kTiles);
    std::iota(tiles.begin(), tiles.end(), 0);
    return {{"tile", tiles}};
  }

  bool is_valid(const DeviceInfo&, const Problem&, const TunePoint& point) const override {
    return point.size() == 1 && point[0] >= 0 && point[0] < gpu::Product::kTiles;
  }

  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    return {gpu::Product::best_tile(d, p)};
  }

  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return gpu::Product(d, p, point[0]).workspace();
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return gpu::Product(d, p, point[0]).kernels();
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint& point, const Kernels& built) const override {
    return [p, product = gpu::Product(d, p, point[0]), built](Stream& stream, const Args& a) {
      product.run(stream, built, 0,
                  {.tensors = gpu::operands_of(p, a),
                   .workspace = a.workspace,
                   .alpha = static_cast<float>(a.alpha),
                   .beta = static_cast<float>(a.beta),
                   .aligned = gpu::aligned(a)});
    };
  }

 private:
  static Verdict check_integers(const DeviceInfo& d, const Problem& p) {
    POLYMIO_REQUIRE(p.direction == Direction::kForward, "serves another direction");
    POLYMIO_REQUIRE(p.w.type == DataType::kInt8 && p.y.type == DataType::kInt32, "int8 gives int32 only");
    POLYMIO_REQUIRE(p.scalars == Scalars::kDefault, "alpha and beta of integers");
    if (const Verdict v = gpu::check_types(d, p); !v) return v;
    return gpu::check_sizes(p);
  }

  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> gpu_implicit_gemm(const SolverInfo& info, Direction d) {
  return std::make_unique<GpuImplicitGemm>(info, d);
}

}  // namespace polymio::convolution
