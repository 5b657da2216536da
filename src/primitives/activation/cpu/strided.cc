// ActivCpuStrided: any strides. The map runs in place on rows that are contiguous in every tensor, else on copies of
// blocks.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <memory>

#include "kernels/cpu/activation.h"
#include "kernels/cpu/kernels_of.h"
#include "primitives/activation/solvers.h"

namespace polymio::activation {
namespace {

constexpr std::int64_t kTaskElements = 1 << 14;  // most functions take longer than a copy

class CpuStrided final : public Solver<Problem> {
 public:
  CpuStrided(const SolverInfo& info, Direction d) : Solver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo&, const Problem& p) const override {
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    return {};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    // Elements are copied one by one, and each may load a cache line.
    const double copies = 1e-3 * static_cast<double>(p.count()) / d.threads;
    return copies + 3 * p.work() / std::max(d.bandwidth_gbs, 1.0) * 1e-3 + arithmetic_us(d, p) + 2;
  }

  Invoker build(Stream&, const Problem& p, const TunePoint&) const override {
    return
        [p, tiles = Tiles(loop_of(p))](Stream& on, const Args& args) { run_strided(on, tiles, kernel_job(p, args)); };
  }

 private:
  Direction direction_;
};

}  // namespace

void run_strided(Stream& stream, const Tiles& tiles, const kernels::Activation& job) {
  const std::size_t size = size_of(job.type);
  common::Operands operands;
  operands.push(job.result, size);
  operands.push(job.x, size);
  if (job.dy) operands.push(job.dy, size);
  operands.reads_outputs = job.keep != 0;
  const auto& kernels = kernels::kernels_of<kernels::ActivationKernels>(stream.info().isa);
  const auto kernel = [&](const kernels::Run& run) {
    kernels::Activation part = job;
    part.x = run.in[0];
    part.dy = run.in[1];
    part.result = run.out[0];
    kernels.run(part, 0, run.n);
  };
  common::map(stream, tiles, operands, kernel, kTaskElements, common::RunShape::kOneRow);
}

std::unique_ptr<const SolverBase> cpu_strided(const SolverInfo& info, Direction d) {
  return std::make_unique<CpuStrided>(info, d);
}

}  // namespace polymio::activation
