// ConvGpuGemm: the im2col matrix in the workspace and a product by implicit_gemm.cl; a pointwise convolution needs no
// such matrix. One to three spatial dimensions, any strides, dilations and groups, fp32, fp16 and bf16.
// SPDX-License-Identifier: MIT
#include "primitives/convolution/gpu/gemm.h"

#include <memory>
#include <numeric>

#include "base/math.h"
#include "primitives/convolution/gpu/product.h"

namespace polymio::convolution {
namespace {

constexpr std::int64_t kLine = 64;  // bytes: alignment of the matrix in the workspace

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
  product.x = matrix(columns.type(), p.n(), p.c() * taps, pixels, columns.depth_innermost());
  product.y = matrix(p.y.type, p.n(), p.k(), pixels, last);
  product.w = matrix(p.w.type, p.k(), p.c() / p.groups() * taps, 1, false);
  return product;
}

/// The product of the matrix of all images.
class TiledProduct {
 public:
  TiledProduct(const DeviceInfo& d, const Problem& p, const TunePoint& point, ErrorClass)
      : columns(p, p.n()), images(p.n()), direction_(p.direction), product_(d, product_of(p, columns), point[0]) {}

  static Verdict check(const DeviceInfo& d, const Problem& p, ErrorClass) {
    const Problem product = product_of(p, gpu::Columns(p, p.n()));
    if (const Verdict v = gpu::check_sizes(product); !v) return v;
    return gpu::Product(d, product, 0).check();
  }

  static TuneSpace tune_space() {
    std::vector<int> tiles(gpu::Product::kTiles);
    std::iota(tiles.begin(), tiles.end(), 0);
    return {{"tile", tiles}};
  }
  static bool is_valid(const Problem&, const TunePoint& point) {
    return point.size() == 1 && point[0] >= 0 && point[0] < gpu::Product::kTiles;
  }
  static TunePoint default_point(const DeviceInfo& d, const Problem& p) {
    return {gpu::Product::best_tile(d, product_of(p, gpu::Columns(p, p.n())))};
  }

  double predict(const DeviceInfo& d, const Problem&) const { return product_.predict(d); }
  std::size_t workspace() const { return columns.direct() ? product_.workspace() : matrix_at() + columns.bytes(); }
  std::vector<KernelSpec> kernels() const { return product_.kernels(); }
  void prepare(Stream&, const Problem&) {}

  gpu::MatrixPlace matrix(void* workspace) const {
    return {Buffer(workspace), static_cast<std::int64_t>(matrix_at() / size_of(columns.type()))};
  }

  void run(Stream& stream, const Kernels& built, std::size_t first, const gpu::Chunk& c) const {
    const bool backward = direction_ == Direction::kBackwardData, weights = direction_ == Direction::kBackwardWeights;
    gpu::Product::Call call = {.tensors = {backward ? c.y : c.x, weights ? c.y : c.w, weights ? c.w : c.y},
                               .workspace = c.workspace,
                               .alpha = c.alpha,
                               .beta = c.beta,
                               .aligned = c.aligned};
    if (backward) {
      call.tensors.output = c.x;
      call.output_at = c.x_at;
    } else {
      call.first_at = c.x_at;
    }
    product_.run(stream, built, first, call);
  }

  gpu::Columns columns;
  std::int64_t images;  // per chunk

 private:
  std::size_t matrix_at() const {
    return static_cast<std::size_t>(round_up(static_cast<std::int64_t>(product_.workspace()), kLine));
  }

  Direction direction_;
  gpu::Product product_;
};

}  // namespace

std::unique_ptr<const SolverBase> gpu_gemm(const SolverInfo& info, Direction d) {
  return std::make_unique<gpu::Gemm<TiledProduct>>(info, d);
}

}  // namespace polymio::convolution
