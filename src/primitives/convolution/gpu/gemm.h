// Convolution as products with the im2col matrix, which is gathered in the workspace for chunks of images, or read in
// place. What multiplies is a parameter: the library's own tiles (gemm.cc) or cuBLASLt (cuda/library_gemm.cc).
// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <iterator>
#include <utility>

#include "base/math.h"
#include "core/kernel_builder.h"
#include "primitives/convolution/convolution.h"
#include "primitives/convolution/gpu/columns.h"

namespace polymio::convolution::gpu {

/// The operands of the product of some images: tensors from the first of these on; x is the matrix if that is in the
/// workspace.
struct Chunk {
  Buffer x, w, y, workspace;
  std::int64_t x_at;  // offset in x, in elements
  std::int64_t images;
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
    if (const Verdict v = check_columns(d, p, direction_); !v) return v;
    return Product::check(d, p, error_);
  }

  ErrorClass error_class(const Problem&) const override { return error_; }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    const Product product(d, p, point, error_);
    const auto chunks = static_cast<double>(ceil_div(p.n(), product.images));
    return product.predict(d, p) + chunks * product.columns.predict(d);
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
    const auto size = static_cast<std::int64_t>(size_of(p.x.type));
    const std::size_t first = product.columns.kernels().size();
    Kernels built = build_kernels(stream, specs_of(product));
    return [plan = Plan{std::move(product), std::move(built), first, p.direction, p.n(), p.y.strides[0] * size, size}](
               Stream& on, const Args& a) { run(on, plan, a); };
  }

 private:
  struct Plan {
    Product product;
    Kernels built;
    std::size_t first;  // kernel of the product, after those of the columns
    Direction direction;
    std::int64_t images, y_step, element;  // of the batch; bytes per image of y and per element
  };

  static std::vector<KernelSpec> specs_of(const Product& product) {
    std::vector<KernelSpec> specs = product.columns.kernels();
    std::ranges::move(product.kernels(), std::back_inserter(specs));
    return specs;
  }

  static void run(Stream& stream, const Plan& plan, const Args& a) {
    const Columns& columns = plan.product.columns;
    const bool backward = plan.direction == Direction::kBackwardData, copied = !columns.direct();
    const MatrixPlace matrix = plan.product.matrix(a.workspace);
    const bool all_aligned = aligned(a) && (!copied || is_aligned(matrix.buffer.handle));
    const auto alpha = static_cast<float>(a.alpha), beta = static_cast<float>(a.beta);
    for (std::int64_t first = 0; first < plan.images; first += plan.product.images) {
      const std::int64_t images = std::min(plan.product.images, plan.images - first);
      char* const x = static_cast<char*>(a.x) + first * columns.image_step() * plan.element;
      char* const y = static_cast<char*>(a.y) + first * plan.y_step;
      const Columns::Call call = {x, matrix.buffer, matrix.at, images, all_aligned, alpha, beta};
      Chunk chunk = {x,           a.w,   y,   a.workspace, 0, images, first == 0, first + images == plan.images,
                     all_aligned, alpha, beta};
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
