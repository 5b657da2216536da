// ConvGpuGemm: the im2col matrix in the workspace, in parts of the batch, and products by implicit_gemm.cl; a pointwise
// convolution needs no such matrix. One to three spatial dimensions, any strides, dilations and groups, fp32, fp16 and
// bf16.
// SPDX-License-Identifier: MIT
#include "primitives/convolution/gpu/gemm.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>

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

enum Knobs { kTile, kMatrixMiB };

/// The largest parts that the point allows; nothing if there are none. Channels of x are not cut.
std::optional<gpu::Slices> slices_at(const Problem& p, const TunePoint& point) {
  const std::int64_t bytes = point[kMatrixMiB] * gpu::kMiB;
  const auto slices = gpu::slices_of(p, gpu::is_pointwise(p), bytes, bytes);
  return slices && slices->channels == p.c() / p.groups() ? slices : std::nullopt;
}

/// The product of a part, as a 1x1 convolution of its matrix. `sums`: gradients of the weights in fp32.
Problem product_of(const Problem& p, const gpu::Columns& columns, const gpu::Slices& size, bool sums) {
  const std::int64_t taps = gpu::taps_of(p);
  const bool last = !columns.pixels_innermost();
  Problem product = p;
  product.geometry = {1, {}, {1, 1, 1}, {1, 1, 1}, p.groups()};
  product.x = matrix(columns.type(), size.images, p.c() * taps, size.pixels, columns.depth_innermost());
  product.y = matrix(p.y.type, size.images, p.k(), size.pixels, last);
  // Those of whole images: a part has some of their pixels.
  product.y.strides[0] = p.k() * gpu::pixels_of(p);
  if (!last) product.y.strides[1] = gpu::pixels_of(p);
  product.w = matrix(sums ? DataType::kFloat : p.w.type, p.k(), p.c() / p.groups() * taps, 1, false);
  return product;
}

/// The products of the parts.
class TiledProduct {
 public:
  TiledProduct(const DeviceInfo& d, const Problem& p, const TunePoint& point, ErrorClass)
      : slices(*slices_at(p, point)),
        columns(p, slices),
        direction_(p.direction),
        parts_(gpu::parts(p, slices)),
        weight_count_(p.w.count()),
        sums_(direction_ == Direction::kBackwardWeights && parts_ > 1),
        full_(d, product_of(p, columns, slices, sums_), point[kTile]),
        rest_(d, product_of(p, columns, gpu::part(p, slices, parts_ - 1).size, sums_), point[kTile]) {}

  static constexpr bool kFuses = false;
  static Verdict check(const DeviceInfo& d, const Problem& p, ErrorClass) {
    const auto slices = slices_at(p, default_point(d, p));
    POLYMIO_REQUIRE(slices, "the matrix of an image, or of 64 pixels where these can be cut, exceeds 384 MiB");
    const Problem product = product_of(p, gpu::Columns(p, *slices), *slices, false);
    if (const Verdict v = gpu::check_sizes(product); !v) return v;
    return gpu::Product(d, product, 0).check();
  }

  static TuneSpace tune_space() {
    std::vector<int> tiles(gpu::Product::kTiles);
    std::iota(tiles.begin(), tiles.end(), 0);
    return {{"tile", tiles}, {"matrix_mib", {kMost, 64, 8, 1}}};
  }
  static bool is_valid(const Problem& p, const TunePoint& point) {
    if (point.size() != 2 || point[kTile] < 0 || point[kTile] >= gpu::Product::kTiles || point[kMatrixMiB] <= 0)
      return false;
    const auto most = slices_at(p, {point[kTile], kMost}), slices = slices_at(p, point);
    return slices && (point[kMatrixMiB] == kMost || slices != most);
  }
  static TunePoint default_point(const DeviceInfo& d, const Problem& p) {
    const auto slices = slices_at(p, {0, kMost});
    return {slices ? gpu::Product::best_tile(d, product_of(p, gpu::Columns(p, *slices), *slices, false)) : 0, kMost};
  }

  double predict(const DeviceInfo& d, const Problem&) const {
    return static_cast<double>(parts_ - 1) * full_.predict(d) + rest_.predict(d);
  }
  std::size_t workspace() const { return columns.direct() ? matrix_at() : sums_at() + sum_bytes(); }
  std::vector<KernelSpec> kernels() const {
    std::vector<KernelSpec> specs = full_.kernels();
    if (parts_ > 1) std::ranges::move(rest_.kernels(), std::back_inserter(specs));
    if (sums_) specs.push_back(columns.scale_sums_spec());
    return specs;
  }
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
      call.first_at = c.y_at;
      call.output_at = c.x_at;
    } else {
      call.first_at = c.x_at;
      (weights ? call.second_at : call.output_at) = c.y_at;
    }
    if (sums_) {
      call.tensors.output = c.workspace;
      call.output_at = static_cast<std::int64_t>(sums_at() / sizeof(float));
      call.alpha = 1;
      call.beta = c.first ? 0 : 1;
    }
    const std::size_t rest = first + full_.kernels().size();
    columns.is_full(c.part) ? full_.run(stream, built, first, call) : rest_.run(stream, built, rest, call);
    if (sums_ && c.last)
      gpu::scale_sums(stream, *built.back(), {c.workspace, c.w, weight_count_, 1, call.output_at}, c.alpha, c.beta);
  }

  gpu::Slices slices;
  gpu::Columns columns;

 private:
  static constexpr int kMost = gpu::kMostMatrix / gpu::kMiB;

  std::size_t sum_bytes() const { return sums_ ? static_cast<std::size_t>(weight_count_) * sizeof(float) : 0; }
  std::size_t sums_at() const {
    return static_cast<std::size_t>(round_up(static_cast<std::int64_t>(matrix_at() + columns.bytes()), kLine));
  }
  std::size_t matrix_at() const {
    const std::size_t products = std::max(full_.workspace(), rest_.workspace());
    return static_cast<std::size_t>(round_up(static_cast<std::int64_t>(products), kLine));
  }

  Direction direction_;
  std::int64_t parts_, weight_count_;
  bool sums_;                 // the gradient of the weights is summed over the parts in fp32
  gpu::Product full_, rest_;  // of a full part and of the last one
};

}  // namespace

std::unique_ptr<const SolverBase> gpu_gemm(const SolverInfo& info, Direction d) {
  return std::make_unique<gpu::Gemm<TiledProduct>>(info, d);
}

}  // namespace polymio::convolution
