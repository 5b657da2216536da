// ConvCpuDirectWrw: backward weights without a column matrix; blocks of dw stay in the cache while the kernel goes over
// padded input tiles and tiles of dy. Results do not depend on the number of threads: the problem alone decides blocks
// and slices.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/cpu/direct_backward_weights.h"
#include "kernels/cpu/kernels_of.h"
#include "primitives/convolution/cpu/direct_cost.h"
#include "primitives/convolution/cpu/problem_shape.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {
namespace {

using kernels::DirectGradient;

constexpr std::int64_t kMostPartialBytes = 256 << 20;

DirectGradient job_of(const DeviceInfo& d, const Problem& p) {
  const auto& kernels = kernels::kernels_of<kernels::DirectKernels>(d.isa);
  kernels::DirectUnit unit = kernels.unit(p.x.type);
  const kernels::ConvShape shape = conv_shape(p);
  // A bf16 pair has elements of two images or lines. A single line would be paired with zeros, so it is computed in
  // fp32.
  const bool single = p.n() == 1 && shape.out[1] == 1;
  if (single && unit.math == kernels::DirectMath::kBf16 && !unit.amx) unit = kernels.unit(DataType::kFloat);
  return kernels::gradient_job(shape, p.w.type, unit, static_cast<std::int64_t>(d.cache_bytes[1]));
}

class CpuDirectWeights final : public Solver<Problem> {
 public:
  using Solver::Solver;

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    if (const Verdict v = check_float_problem(p, Direction::kBackwardWeights); !v) return v;
    if (const Verdict v = check_countable(p); !v) return v;
    constexpr std::int64_t kFewChannels = 2;
    POLYMIO_REQUIRE(p.groups() == 1 || std::min(p.c(), p.k()) >= kFewChannels * p.groups(),
                    "groups must have 2 or more channels");
    const DirectGradient job = job_of(d, p);
    POLYMIO_REQUIRE_MOST(job.places.total, kMaxScratch, "bytes of scratch for one row of an image");
    POLYMIO_REQUIRE_MOST(static_cast<std::int64_t>(job.workspace()), kMostPartialBytes, "bytes of partial sums");
    return {};
  }

  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    return job_of(d, p).workspace();
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    const Machine m(d);
    return m.loop_us(gradient_work(job_of(d, p), m), tensor_bytes(p));
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint&) const override {
    const auto& kernels = kernels::kernels_of<kernels::DirectGradientKernels>(stream.info().isa);
    const auto job = std::make_shared<const DirectGradient>(job_of(stream.info(), p));
    const auto scratch = static_cast<std::size_t>(job->places.total);
    stream.reserve_scratch(scratch);
    return [job, &kernels, scratch](Stream& on, const Args& a) {
      const kernels::GradientArgs args{a.x, a.y, a.w, a.workspace, a.alpha, a.beta};
      on.parallel_for(static_cast<std::size_t>(job->pieces()), scratch, [&](std::size_t i, void* memory) {
        const auto piece = static_cast<std::int64_t>(i);
        kernels.run(*job, args, piece, piece + 1, memory);
      });
      if (job->slices == 1) return;
      on.parallel_for(static_cast<std::size_t>(job->results()), scratch, [&](std::size_t i, void* memory) {
        const auto part = static_cast<std::int64_t>(i);
        kernels.sum(*job, args, part, part + 1, memory);
      });
    };
  }
};

}  // namespace

std::unique_ptr<const SolverBase> cpu_direct_weights(const SolverInfo& info, Direction) {
  return std::make_unique<CpuDirectWeights>(info);
}

}  // namespace polymio::convolution
