// ConvGpuImplicitGemm: convolution as a tiled matrix product; tiles of the im2col matrix exist in local memory only.
// Serves every problem that the reference kernel does. Product, for one or two spatial dimensions and tensors of usual
// sizes in fp32, fp16, bf16 and int8 (forward): weights are packed into the workspace; if there are few tiles, K is
// split and the partial results are summed in a fixed order. GeneralProduct for everything else, for few output
// channels and for callers without workspace.
// SPDX-License-Identifier: MIT
#include <memory>
#include <numeric>

#include "primitives/convolution/gpu/general_product.h"
#include "primitives/convolution/gpu/product.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {
namespace {

using gpu::GeneralProduct;
using gpu::Product;

/// Points: the tiles of Product, then the choices of GeneralProduct.
constexpr int kPoints = Product::kTiles + GeneralProduct::kChoices;
constexpr int kGeneral = Product::kTiles;
constexpr std::size_t kMostWorkspace = std::size_t{512} << 20;

Verdict check_integers(const DeviceInfo& d, const Problem& p) {
  constexpr std::int64_t kMostDepth = 131071;  // products of -128 and -128 whose sum is below 2^31
  POLYMIO_REQUIRE(p.direction == Direction::kForward, "serves another direction");
  POLYMIO_REQUIRE(p.w.type == DataType::kInt8 && p.y.type == DataType::kInt32, "int8 gives int32 only");
  POLYMIO_REQUIRE(p.scalars == Scalars::kDefault, "alpha and beta of integers");
  POLYMIO_REQUIRE_MOST(p.w.count() / p.k(), kMostDepth, "products of a sum");
  if (const Verdict v = gpu::check_types(d, p); !v) return v;
  return gpu::check_sizes(p);
}

bool product_serves(const DeviceInfo& d, const Problem& p) {
  if (p.x.type == DataType::kInt8 ? !check_integers(d, p) : !gpu::check_planes(d, p, p.direction)) return false;
  const bool weights = p.direction == Direction::kBackwardWeights;
  if (weights && !p.w.is_channels_first() && !p.w.is_channels_last()) return false;
  return static_cast<bool>(Product(d, p, 0).check());
}

/// Few channels of a group are written, for which the tiles of Product are too wide.
bool has_few_outputs(const Problem& p) {
  constexpr std::int64_t kFew = 16;
  return (p.direction == Direction::kBackwardData ? p.c() : p.k()) / p.groups() <= kFew;
}

/// Whether the choice of GeneralProduct is worth a measurement where Product serves, too: without workspace, or for few
/// outputs.
bool is_alternative(const DeviceInfo& d, const Problem& p, int choice) {
  return has_few_outputs(p) || choice % GeneralProduct::kTiles == GeneralProduct::best_choice(d, p);
}

class GpuImplicitGemm final : public GpuSolver<Problem> {
 public:
  GpuImplicitGemm(const SolverInfo& info, Direction d) : GpuSolver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    POLYMIO_REQUIRE(p.direction == direction_, "serves another direction");
    return gpu::check_device(d, p);
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return is_general(point) ? general(d, p, point).predict(d) : Product(d, p, point[0]).predict(d);
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override {
    std::vector<int> tiles(kPoints);
    std::iota(tiles.begin(), tiles.end(), 0);
    return {{"tile", tiles}};
  }

  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    if (point.size() != 1 || point[0] < 0 || point[0] >= kPoints) return false;
    const bool served = product_serves(d, p);
    if (!is_general(point)) return served && Product(d, p, point[0]).workspace() <= kMostWorkspace;
    const int choice = point[0] - kGeneral;
    // Without splits there is no workspace: one point for both choices.
    if (choice >= GeneralProduct::kTiles && GeneralProduct(d, p, choice - GeneralProduct::kTiles).workspace() == 0)
      return false;
    return !served || is_alternative(d, p, choice);
  }

  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    const TunePoint other = {kGeneral + GeneralProduct::best_choice(d, p)};
    if (!product_serves(d, p)) return other;
    const TunePoint tile = {Product::best_tile(d, p)};
    if (Product(d, p, tile[0]).workspace() > kMostWorkspace) return other;
    // Times of Product were measured, those of GeneralProduct are guesses: a large difference decides.
    const double trust = has_few_outputs(p) ? 1 : 0.25;
    return estimate(d, p, other) < trust * estimate(d, p, tile) ? other : tile;
  }

  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return is_general(point) ? general(d, p, point).workspace() : Product(d, p, point[0]).workspace();
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return is_general(point) ? general(d, p, point).kernels(d, p) : Product(d, p, point[0]).kernels();
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint& point, const Kernels& built) const override {
    if (is_general(point))
      return [p, product = general(d, p, point), built](Stream& stream, const Args& a) {
        product.run(stream, built, gpu::operands_of(p, a), a);
      };
    return [p, product = Product(d, p, point[0]), built](Stream& stream, const Args& a) {
      product.run(stream, built, 0,
                  {.tensors = gpu::operands_of(p, a),
                   .workspace = a.workspace,
                   .alpha = static_cast<float>(a.alpha),
                   .beta = static_cast<float>(a.beta),
                   .aligned = gpu::aligned(a)});
    };
  }

 private:
  static bool is_general(const TunePoint& point) { return point[0] >= kGeneral; }
  static GeneralProduct general(const DeviceInfo& d, const Problem& p, const TunePoint& point) {
    return {d, p, point[0] - kGeneral};
  }

  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> gpu_implicit_gemm(const SolverInfo& info, Direction d) {
  return std::make_unique<GpuImplicitGemm>(info, d);
}

}  // namespace polymio::convolution
