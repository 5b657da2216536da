// ConvHopperWidened: ConvHopper on copies of 8-bit floats in bf16, which has all their values: products are exact and
// sums fp32, at half the rate of the matrix unit's own 8-bit products, which add with fewer bits, do not know FNUZ, and
// read gradients of weights in the wrong order. The workspace holds the copies, and such gradients in fp32 where dw is
// of another type.
// SPDX-License-Identifier: MIT
#include "base/math.h"
#include "primitives/convolution/cuda/hopper.h"
#include "primitives/convolution/cuda/hopper_plan.h"
#include "primitives/convolution/gpu/arguments.h"

namespace polymio::convolution {
namespace {

constexpr std::int64_t kThreads = 256, kUnit = 16;  // as in widen.cl
constexpr std::int64_t kAlignment = 128;            // of copies

/// Whether dw is written by another kernel, from sums in fp32.
bool has_sums(const Problem& p) {
  return p.direction == Direction::kBackwardWeights && p.w.type != DataType::kFloat && p.w.type != DataType::kBFloat16;
}

/// The problem of the copies, which have the strides of the tensors.
Problem inner_problem(const Problem& p) {
  Problem q = p;
  for (TensorDesc* t : {&q.x, &q.w, &q.y})
    if (t != &q.output()) t->type = t->cast = DataType::kBFloat16;
  if (has_sums(p)) {
    q.w.type = q.w.cast = DataType::kFloat;
    q.scalars = Scalars::kDefault;
  }
  return q;
}

std::int64_t copy_bytes(const TensorDesc& t) { return round_up(2 * t.space(), kAlignment); }

/// The parts of the workspace, in bytes.
struct Parts {
  std::int64_t first, second, sums;
  std::int64_t all() const { return first + second + sums; }
};

Parts parts_of(const Problem& p) {
  return {copy_bytes(p.first_input()), copy_bytes(p.second_input()),
          has_sums(p) ? round_up(4 * p.w.space(), kAlignment) : 0};
}

class HopperWidened final : public GpuSolver<Problem> {
 public:
  HopperWidened(const SolverInfo& info, Direction d)
      : GpuSolver(info), direction_(d), solver_(cuda::make_hopper(info, d)) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    constexpr std::int64_t kMostBytes = std::int64_t{2} << 30;
    POLYMIO_REQUIRE(p.direction == direction_, "serves another direction");
    if (const Verdict v = cuda::hopper_runs_on(d); !v) return v;
    POLYMIO_REQUIRE(!p.has_casts() && is_fp8(p.first_input().type) && is_fp8(p.second_input().type),
                    "not two 8-bit floats");
    POLYMIO_REQUIRE(p.output().type != DataType::kDouble, "results of fp64");
    POLYMIO_REQUIRE_MOST(parts_of(p).all(), kMostBytes, "bytes of copies");
    return cuda::hopper_serves(inner_problem(p));
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    constexpr double kLaunchUs = 2, kRate = 0.8;  // of the memory's
    const Parts parts = parts_of(p);
    const std::int64_t bytes = (parts.first + parts.second) / 2 * 3 + parts.sums;
    return solver_->estimate(d, inner_problem(p), point) + (has_sums(p) ? 3 : 2) * kLaunchUs +
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

  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    return static_cast<std::size_t>(parts_of(p).all() + kAlignment) +
           solver_->workspace_size(d, inner_problem(p), point);
  }

  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint& point) const override {
    std::vector<KernelSpec> specs;
    for (const DataType t : {p.first_input().type, p.second_input().type})
      specs.push_back({kSource, "widen", {std::string("-DIN=") + name_of(t)}});
    if (has_sums(p)) {
      specs.push_back({kSource, "store_sums", {std::string("-DOUT=") + name_of(p.w.type)}});
      if (p.rounding == Rounding::kStochastic && is_fp8(p.w.type)) specs.back().options.emplace_back("-DDITHERS_OUT");
    }
    for (KernelSpec& spec : solver_->kernel_specs(d, inner_problem(p), point)) specs.push_back(std::move(spec));
    return specs;
  }

  Invoker assemble(const DeviceInfo& d, const Problem& p, const TunePoint& point, const Kernels& built) const override {
    const bool stores = has_sums(p);
    const Invoker convolve =
        solver_->assemble(d, inner_problem(p), point, Kernels(built.begin() + (stores ? 3 : 2), built.end()));
    return [p, built, convolve, stores, parts = parts_of(p)](Stream& stream, const Args& a) {
      char* const first = gpu::align_up(a.workspace, kAlignment);
      char *const second = first + parts.first, *const sums = second + parts.second;
      Args in = a;
      void*& first_source = p.direction == Direction::kBackwardData ? in.y : in.x;
      void*& second_source = p.direction == Direction::kBackwardWeights ? in.y : in.w;
      widen(stream, *built[0], p.first_input(), first_source, first);
      widen(stream, *built[1], p.second_input(), second_source, second);
      first_source = first;
      second_source = second;
      in.workspace = sums + parts.sums;
      if (!stores) return convolve(stream, in);
      in.w = sums;
      in.alpha = 1;
      in.beta = 0;
      convolve(stream, in);
      launch(stream, *built[2], launch_shape(kThreads, ceil_div(p.w.space(), kThreads)), Buffer(sums), Buffer(a.w),
             p.w.space(), static_cast<float>(a.alpha), static_cast<float>(a.beta), a.seed);
    };
  }

 private:
  static constexpr const char* kSource = "primitives/convolution/cuda/widen.cl";

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
