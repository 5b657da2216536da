// ConvHopperWidened: ConvHopper on copies of 8-bit floats in bf16, which has all their values: products are exact and
// sums fp32, at half the rate of the matrix unit's own 8-bit products, which add with fewer bits and do not know FNUZ.
// The workspace holds the copies.
// SPDX-License-Identifier: MIT
#include "base/math.h"
#include "primitives/convolution/cuda/hopper.h"
#include "primitives/convolution/cuda/hopper_plan.h"
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution {
namespace {

constexpr std::int64_t kThreads = 256, kUnit = 16;  // as in widen.cl
constexpr std::int64_t kAlignment = 128;            // of copies

/// The problem of the copies, which have the strides of the tensors.
Problem inner_problem(const Problem& p) {
  Problem q = p;
  for (TensorDesc* t : {p.direction == Direction::kBackwardData ? &q.y : &q.x, &q.w})
    t->type = t->cast = DataType::kBFloat16;
  return q;
}

std::int64_t copy_bytes(const TensorDesc& t) { return round_up(2 * t.space(), kAlignment); }

class HopperWidened final : public GpuSolver<Problem> {
 public:
  HopperWidened(const SolverInfo& info, Direction d)
      : GpuSolver(info), direction_(d), solver_(cuda::make_hopper(info, d)) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    constexpr std::int64_t kMostBytes = std::int64_t{2} << 30;
    POLYMIO_REQUIRE(p.direction == direction_, "serves another direction");
    if (const Verdict v = cuda::hopper_runs_on(d); !v) return v;
    POLYMIO_REQUIRE(!p.has_casts() && is_fp8(p.first_input().type) && is_fp8(p.w.type), "not two 8-bit floats");
    POLYMIO_REQUIRE_MOST(copy_bytes(p.first_input()) + copy_bytes(p.w), kMostBytes, "bytes of copies");
    return cuda::hopper_serves(inner_problem(p));
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    constexpr double kLaunchUs = 2, kRate = 0.8;  // of the memory's
    const std::int64_t bytes = 3 * (p.first_input().space() + p.w.space());
    return solver_->estimate(d, inner_problem(p), point) + 2 * kLaunchUs +
           static_cast<double>(bytes) / (1e3 * d.bandwidth_gbs * kRate);
  }

  TuneSpace tune_space(const DeviceInfo& d, const Problem& p) const override {
    return solver_->tune_space(d, inner_problem(p));
  }
  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return solver_->is_valid(d, inner_problem(p), point);
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    return solver_->default_point(d, inner_problem(p));
  }

  std::size_t workspace_size(const DeviceInfo&, const Problem& p, const TunePoint&) const override {
    return static_cast<std::size_t>(copy_bytes(p.first_input()) + copy_bytes(p.w) + kAlignment);
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    std::vector<KernelSpec> specs;
    for (const DataType t : {p.first_input().type, p.w.type})
      specs.push_back({"primitives/convolution/cuda/widen.cl", "widen", {std::string("-DIN=") + name_of(t)}});
    for (KernelSpec& spec : solver_->kernel_specs(d, inner_problem(p), point)) specs.push_back(std::move(spec));
    return specs;
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint& point, const Kernels& built) const override {
    const Invoker convolve = solver_->assemble(d, inner_problem(p), point, Kernels(built.begin() + 2, built.end()));
    return [p, built, convolve](Stream& stream, const Args& a) {
      const auto workspace = reinterpret_cast<std::intptr_t>(a.workspace);
      char* const data = reinterpret_cast<char*>(round_up(workspace, std::intptr_t{kAlignment}));
      char* const weights = data + copy_bytes(p.first_input());
      Args in = a;
      void*& source = p.direction == Direction::kBackwardData ? in.y : in.x;
      widen(stream, *built[0], p.first_input(), source, data);
      widen(stream, *built[1], p.w, a.w, weights);
      source = data;
      in.w = weights;
      convolve(stream, in);
    };
  }

 private:
  static void widen(Stream& stream, const Kernel& kernel, const TensorDesc& t, const void* from, void* to) {
    launch(stream, kernel, launch_shape(kThreads, ceil_div(t.space(), kThreads * kUnit)), Buffer(from), Buffer(to),
           t.space());
  }

  Direction direction_;
  std::unique_ptr<const GpuSolver<Problem>> solver_;
};

}  // namespace

std::unique_ptr<const SolverBase> cuda_hopper_widened(const SolverInfo& info, Direction d) {
  return std::make_unique<HopperWidened>(info, d);
}

}  // namespace polymio::convolution
