// ConvGpuGemm: the im2col matrix in the workspace and a matrix product; a pointwise convolution needs no such matrix.
// One to three spatial dimensions, any strides, dilations and groups, fp32, fp16 and bf16.
// SPDX-License-Identifier: MIT
#include <memory>
#include <numeric>

#include "primitives/convolution/gpu/columns.h"
#include "primitives/convolution/gpu/product.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {
namespace {

constexpr std::size_t kLine = 64;  // bytes: alignment of the matrix in the workspace

/// (images, channels, pixels) in the layout of y; `last`: channels innermost.
TensorDesc matrix(DataType type, std::int64_t images, std::int64_t channels, std::int64_t pixels, bool last) {
  const std::int64_t lens[] = {images, channels, pixels};
  const std::int64_t first_strides[] = {channels * pixels, pixels, 1},
                     last_strides[] = {channels * pixels, 1, channels};
  return make_tensor(type, lens, last ? last_strides : first_strides);
}

/// The product as a 1x1 convolution of the matrix.
Problem product_of(const Problem& p, const gpu::Columns& columns) {
  const std::int64_t taps = gpu::taps_of(p), pixels = gpu::pixels_of(p);
  const bool last = !columns.pixels_innermost();
  Problem product = p;
  product.geometry = {1, {}, {1, 1, 1}, {1, 1, 1}, p.groups()};
  product.x = matrix(columns.type(), p.n(), p.c() * taps, pixels, last);
  product.y = matrix(p.y.type, p.n(), p.k(), pixels, last);
  product.w = matrix(p.w.type, p.k(), p.c() / p.groups() * taps, 1, false);
  return product;
}

struct Plan {
  gpu::Columns columns;
  Problem problem;  // of the product
  explicit Plan(const Problem& p) : columns(p, p.n()), problem(product_of(p, columns)) {}
};

std::size_t matrix_at(const gpu::Product& product) { return (product.workspace() + kLine - 1) / kLine * kLine; }

class GpuGemm final : public GpuSolver<Problem> {
 public:
  GpuGemm(const SolverInfo& info, Direction d) : GpuSolver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    if (const Verdict v = gpu::check_columns(d, p, direction_); !v) return v;
    const Plan plan(p);
    if (const Verdict v = gpu::check_sizes(plan.problem); !v) return v;
    return gpu::Product(d, plan.problem, 0).check();
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const Plan plan(p);
    return gpu::Product(d, plan.problem, point[0]).predict(d) + plan.columns.predict(d);
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
    return {gpu::Product::best_tile(d, Plan(p).problem)};
  }

  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const Plan plan(p);
    const gpu::Product product(d, plan.problem, point[0]);
    return plan.columns.direct() ? product.workspace() : matrix_at(product) + plan.columns.bytes();
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const Plan plan(p);
    std::vector<KernelSpec> specs = gpu::Product(d, plan.problem, point[0]).kernels();
    for (KernelSpec& spec : plan.columns.kernels()) specs.push_back(std::move(spec));
    return specs;
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint& point, const Kernels& built) const override {
    const Plan plan(p);
    const gpu::Product product(d, plan.problem, point[0]);
    const std::size_t columns_at = built.size() - plan.columns.kernels().size();
    const auto at = static_cast<std::int64_t>(matrix_at(product) / size_of(plan.columns.type()));
    return [p, columns = plan.columns, product, built, columns_at, at](Stream& stream, const Args& a) {
      const Buffer workspace(a.workspace);
      const bool aligned = gpu::aligned(a) && (columns.direct() || is_aligned(a.workspace));
      gpu::Product::Call call = {.tensors = gpu::operands_of(p, a),
                                 .workspace = workspace,
                                 .alpha = static_cast<float>(a.alpha),
                                 .beta = static_cast<float>(a.beta),
                                 .aligned = aligned};
      const gpu::Columns::Call gather = {Buffer(a.x), workspace, at, p.n(), aligned, call.alpha, call.beta};
      const bool backward = p.direction == Direction::kBackwardData;
      if (!columns.direct() && !backward) {
        columns.run(stream, built, columns_at, gather);
        call.tensors.first = workspace;
        call.first_at = at;
      }
      if (!columns.direct() && backward) {
        call.tensors.output = workspace;
        call.output_at = at;
        if (!columns.picks()) {
          call.alpha = 1;
          call.beta = 0;
        }
        columns.prepare(stream, built, columns_at, gather);
      }
      product.run(stream, built, 0, call);
      if (!columns.direct() && backward) columns.run(stream, built, columns_at, gather);
    };
  }

 private:
  static bool is_aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> gpu_gemm(const SolverInfo& info, Direction d) {
  return std::make_unique<GpuGemm>(info, d);
}

}  // namespace polymio::convolution
