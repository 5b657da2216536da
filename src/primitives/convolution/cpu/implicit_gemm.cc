// ConvCpuImplicitGemm: convolution as a matrix product whose im2col matrix exists only panel by panel in the
// first-level cache. Any strides, 1 to 3 spatial dimensions, groups; no workspace. Backward data runs one product per
// phase (residue of the input position modulo the stride), so that it multiplies no zeros.
// SPDX-License-Identifier: MIT
#include <memory>

#include "kernels/cpu/kernels_of.h"
#include "primitives/convolution/cpu/problem_shape.h"
#include "primitives/convolution/cpu/product_cost.h"
#include "primitives/convolution/cpu/products.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {
namespace {

class CpuImplicitGemm final : public Solver<Problem> {
 public:
  CpuImplicitGemm(const SolverInfo& info, Direction d) : Solver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo&, const Problem& p) const override {
    const Verdict common = check_float_problem(p, direction_, true);
    if (!common) return common;
    POLYMIO_REQUIRE(!is_pointwise(p), "x is already a matrix: the GEMM solver runs the same product");
    return {};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return own_products_us(d, p, read_tuning(point));
  }

  TuneSpace tune_space(const DeviceInfo& d, const Problem& p) const override {
    return product_knobs(products_of(p), kernels::kernels_of<kernels::GemmKernels>(d.isa).tile(p.x.type));
  }

  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return point.size() == 3 &&
           is_distinct(products_of(p), p.groups(), kernels::kernels_of<kernels::GemmKernels>(d.isa).tile(p.x.type),
                       d.threads, point);
  }

  TunePoint default_point(const DeviceInfo&, const Problem&) const override {
    return {0, 0, static_cast<int>(kernels::kGemmDepthBlock)};
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint& point) const override {
    return products_invoker(stream, p, read_tuning(point));
  }

 private:
  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> cpu_implicit_gemm(const SolverInfo& info, Direction d) {
  return std::make_unique<CpuImplicitGemm>(info, d);
}

}  // namespace polymio::convolution
