// ConvCpuImplicitGemm: convolution as a matrix product whose im2col matrix exists only panel by panel in
// the first-level cache. Any strides, 1 to 3 spatial dimensions, groups; no workspace. Backward data runs
// one product per residue of the input position modulo the stride, so that no zero is multiplied.
// SPDX-License-Identifier: MIT
#include <memory>

#include "primitives/convolution/cpu/products.h"
#include "primitives/convolution/solvers.h"

namespace polymio::convolution {
namespace {

class CpuImplicitGemm final : public Solver<Problem> {
 public:
  constexpr explicit CpuImplicitGemm(Direction d) : direction_(d) {}

  SolverInfo info() const override {
    static constexpr const char* kNames[] = {"ConvCpuImplicitGemmFwd", "ConvCpuImplicitGemmBwd",
                                             "ConvCpuImplicitGemmWrw"};
    const auto i = static_cast<std::size_t>(direction_);
    return cpu_info(7 + i, kNames[i], Algorithm::kImplicitGemm);
  }

  Verdict check(const DeviceInfo&, const Problem& p) const override {
    const Verdict common = check_float_problem(p, direction_);
    if (!common) return common;
    POLYMIO_REQUIRE(!is_pointwise(p), "x is already a matrix: the GEMM solver runs the same product");
    return {};
  }

  double predict(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    return roofline_us(d, p, 0.75 * tile_efficiency(p), tensor_bytes(p));
  }

  Invoker make(Stream& stream, const Problem& p, const TunePoint&) const override {
    return products_invoker(stream, p);
  }

 private:
  Direction direction_;
};

}  // namespace

const Solver<Problem>& cpu_implicit_gemm(Direction d) {
  static constexpr CpuImplicitGemm kSolvers[] = {CpuImplicitGemm(Direction::kForward),
                                                 CpuImplicitGemm(Direction::kBackwardData),
                                                 CpuImplicitGemm(Direction::kBackwardWeights)};
  return kSolvers[static_cast<int>(d)];
}

}  // namespace polymio::convolution
