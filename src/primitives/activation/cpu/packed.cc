// ActivCpuPacked: tensors with equal strides and no gaps, as one row of elements. Tuning knobs: KiB written per task,
// and non-temporal stores.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/cpu/activation.h"
#include "kernels/cpu/kernels_of.h"
#include "primitives/activation/solvers.h"
#include "primitives/common/caches.h"

namespace polymio::activation {
namespace {

constexpr int kLeastKib = 16, kMostKib = 1024;

double output_bytes(const Problem& p) {
  return static_cast<double>(p.count()) * static_cast<double>(size_of(p.x.type));
}

class CpuPacked final : public Solver<Problem> {
 public:
  CpuPacked(const SolverInfo& info, Direction d) : Solver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo&, const Problem& p) const override {
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    POLYMIO_REQUIRE(loop_of(p).flat(), "the tensors must have equal strides and no gaps");
    return {};
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override {
    return {{"kib", {kLeastKib, 64, 256, kMostKib}}, {"non_temporal", {0, 1}}};
  }
  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    const bool part = t[0] == kLeastKib || t[0] * 1024.0 < output_bytes(p);
    return part && (t[1] == 0 || p.work() > static_cast<double>(d.cache_bytes[1]));
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    // Four tasks per thread balance threads of unequal speed.
    const double share = output_bytes(p) / (4.0 * d.threads * 1024);
    return {share >= 256 ? 256 : share >= 64 ? 64 : kLeastKib, common::exceeds_caches(d, p.work()) ? 1 : 0};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    const double written = output_bytes(p), read = p.work() - written;
    const bool non_temporal = t[1] != 0, large = common::exceeds_caches(d, p.work());
    // A plain store reads the line first. Assumes caches four times as fast as memory.
    const double traffic = read + (non_temporal || !large ? written : 2 * written);
    const double gbs = std::max(d.bandwidth_gbs, 1.0) * (large || non_temporal ? 1 : 4);
    const double tasks = std::ceil(written / (t[0] * 1024.0)), rounds = std::ceil(tasks / d.threads);
    const double idle = rounds * d.threads / tasks;  // factor for threads without a task in the last round
    const double overhead = tasks > 1 ? 2 + 0.2 * rounds : 0.1;
    return idle * std::max(traffic / gbs * 1e-3, arithmetic_us(d, p)) + overhead;
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint& t) const override {
    const auto& kernels = kernels::kernels_of<kernels::ActivationKernels>(stream.info().isa);
    const std::int64_t count = p.count(), part = t[0] * 1024 / static_cast<std::int64_t>(size_of(p.x.type));
    return [p, &kernels, count, part, non_temporal = t[1] != 0](Stream& on, const Args& args) {
      kernels::Activation job = kernel_job(p, args);
      job.non_temporal = non_temporal;
      for_ranges(on, count, part, [&](std::int64_t first, std::int64_t end) { kernels.run(job, first, end); });
    };
  }

 private:
  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> cpu_packed(const SolverInfo& info, Direction d) {
  return std::make_unique<CpuPacked>(info, d);
}

}  // namespace polymio::activation
