// Convolution as products with the im2col matrix, which is gathered in the workspace for parts of the batch, or read in
// place. What multiplies is a parameter: the library's own tiles (gemm.cc) or cuBLASLt (cuda/library_gemm.cc).
// SPDX-License-Identifier: MIT
#pragma once
#include <iterator>
#include <utility>

#include "core/kernel_builder.h"
#include "primitives/convolution/convolution.h"
#include "primitives/convolution/gpu/columns.h"

namespace polymio::convolution::gpu {

constexpr std::int64_t kMiB = 1 << 20;
/// Bytes of the matrix of a part, with which the workspace stays below 512 MiB.
constexpr std::int64_t kMostMatrix = 384 * kMiB;

/// The operands of the product of a part: tensors, and the elements of x and y from which the part's matrices begin; x
/// is the matrix if that is in the workspace.
struct Chunk {
  Buffer x, w, y, workspace;
  const void* bias;
  std::int64_t x_at, y_at;
  Part part;
  bool first, last, aligned;
  float alpha, beta;
};

/// The matrix in the workspace: a buffer, and an offset in elements.
struct MatrixPlace {
  Buffer buffer;
  std::int64_t at;
};

/// `Product` plans and runs the products for a device, a problem and a tune point, multiplying as exactly as an
/// ErrorClass says.
template <class Product>
class Gemm final : public Solver<Problem> {
 public:
  Gemm(const SolverInfo& info, Direction d, ErrorClass error = ErrorClass::kAccurate)
      : Solver(info), direction_(d), error_(error) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    if (const Verdict v = check_columns(d, p, direction_, Product::kFuses); !v) return v;
    return Product::check(d, p, error_);
  }

  ErrorClass error_class(const Problem&) const override { return error_; }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const Product product(d, p, point, error_);
    return product.predict(d, p) + static_cast<double>(parts(p, product.slices)) * product.columns.predict(d);
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override { return Product::tune_space(); }
  bool is_valid(const DeviceInfo&, const Problem& p, const TunePoint& point) const override {
    return Product::is_valid(p, point);
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override { return Product::default_point(d, p); }

  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return Product(d, p, point, error_).workspace();
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return specs_of(Product(d, p, point, error_));
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint& point) const override {
    Product product(stream.info(), p, point, error_);
    product.prepare(stream, p);
    const std::size_t first = product.columns.kernels().size();
    Kernels built = build_kernels(stream, specs_of(product));
    const std::int64_t y_pixel = p.y.is_channels_last() ? p.k() : 1;
    return [plan = Plan{std::move(product), std::move(built), first, p, p.y.strides[0], y_pixel}](
               Stream& on, const Args& a) { run(on, plan, a); };
  }

 private:
  struct Plan {
    Product product;
    Kernels built;
    std::size_t first;  // kernel of the product, after those of the columns
    Problem problem;
    std::int64_t y_image, y_pixel;  // elements of y between images and between pixels
  };

  static std::vector<KernelSpec> specs_of(const Product& product) {
    std::vector<KernelSpec> specs = product.columns.kernels();
    std::ranges::move(product.kernels(), std::back_inserter(specs));
    return specs;
  }

  static void run(Stream& stream, const Plan& plan, const Args& a) {
    const Columns& columns = plan.product.columns;
    const bool backward = plan.problem.direction == Direction::kBackwardData, copied = !columns.direct();
    const MatrixPlace matrix = plan.product.matrix(a.workspace);
    const bool all_aligned = aligned(a) && is_aligned(a.bias) && (!copied || is_aligned(matrix.buffer.handle));
    const auto alpha = static_cast<float>(a.alpha), beta = static_cast<float>(a.beta);
    const Slices& slices = plan.product.slices;
    const std::int64_t count = parts(plan.problem, slices);
    for (std::int64_t i = 0; i < count; ++i) {
      const Part now = part(plan.problem, slices, i);
      const std::int64_t x_at = now.image * columns.image_step(),
                         y_at = now.image * plan.y_image + now.pixel * plan.y_pixel;
      const Columns::Call call = {a.x, matrix.buffer, x_at, matrix.at, now, all_aligned, alpha, beta};
      Chunk chunk = {.x = a.x,
                     .w = a.w,
                     .y = a.y,
                     .workspace = a.workspace,
                     .bias = a.bias,
                     .x_at = x_at,
                     .y_at = y_at,
                     .part = now,
                     .first = i == 0,
                     .last = i + 1 == count,
                     .aligned = all_aligned,
                     .alpha = alpha,
                     .beta = beta};
      if (copied) {
        chunk.x = matrix.buffer;
        chunk.x_at = matrix.at;
      }
      if (backward) columns.prepare(stream, plan.built, 0, call);
      if (copied && !backward) columns.run(stream, plan.built, 0, call);
      if (copied && backward && !columns.picks()) {  // the columns are scaled when they are summed
        chunk.alpha = 1;
        chunk.beta = 0;
      }
      plan.product.run(stream, plan.built, plan.first, chunk);
      if (copied && backward) columns.run(stream, plan.built, 0, call);
    }
  }

  static bool is_aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

  Direction direction_;
  ErrorClass error_;
};

}  // namespace polymio::convolution::gpu
