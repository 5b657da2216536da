// SoftmaxCpu: rows or columns of memory, whichever is contiguous, else copies of rows. Tuning knob: non-temporal
// stores.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/cpu/kernels_of.h"
#include "kernels/cpu/softmax.h"
#include "primitives/common/caches.h"
#include "primitives/softmax/solvers.h"

namespace polymio::softmax {
namespace {

class CpuRows final : public Solver<Problem> {
 public:
  CpuRows(const SolverInfo& info, Direction d) : Solver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo&, const Problem& p) const override {
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    return {};
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override { return {{"non_temporal", {0, 1}}}; }
  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    return t[0] == 0 || p.work() > static_cast<double>(d.cache_bytes[1]);
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    const auto [kept, reduced] = row_loops_of(p);
    const auto size = static_cast<std::int64_t>(size_of(p.in.type));
    const bool suits = reduced.contiguous() ? common::fills_lines(reduced.inner().size * size)
                                            : kept.contiguous() && kept.inner().size * size % common::kCacheLine == 0;
    return {suits && common::exceeds_caches(d, p.work()) ? 1 : 0};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    constexpr double kOperations = 120;  // per element: about two exponentials
    const double written = static_cast<double>(p.in.count()) * static_cast<double>(size_of(p.in.type));
    const bool large = common::exceeds_caches(d, p.work());
    const double traffic = p.work() + (large && t[0] == 0 ? written : 0);
    const double gbs = std::max(d.bandwidth_gbs, 1.0) * (large || t[0] != 0 ? 1 : 4);
    const double arithmetic = kOperations * (p.in.type == DataType::kDouble ? 4 : 1) *
                              static_cast<double>(p.in.count()) / (std::max(d.fp32_gflops, 1.0) * 1e3);
    return std::max(traffic / gbs * 1e-3, arithmetic) + 2;
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint& t) const override {
    const auto& kernels = kernels::kernels_of<kernels::SoftmaxKernels>(stream.info().isa);
    const auto* const kernel = (p.forward() ? kernels.forward : kernels.backward)(p.in.type, p.log());
    return [p, kernel, loops = row_loops_of(p), non_temporal = t[0] != 0](Stream& on, const Args& args) {
      const std::size_t size = size_of(p.in.type);
      common::Operands operands;
      operands.push(args.result, size);
      operands.push(args.in, size);
      if (args.dy) operands.push(args.dy, size);
      operands.reads_outputs = args.keep != 0;
      const kernels::Softmax job{args.scale, args.keep, non_temporal};
      const auto prepare = [&](std::int64_t, std::int64_t n, double* values, std::int64_t pitch) {
        if (!p.forward()) return;
        for (std::int64_t i = 0; i < n; ++i) values[pitch + i] = factor(p, values[i], values[pitch + i]);
      };
      common::reduce_and_apply_many(on, loops, operands, *kernel, &job, prepare);
    };
  }

 private:
  /// The second value that the kernel applies. Without a finite maximum every result is NaN, as the definition says.
  static double factor(const Problem& p, double largest, double sum) {
    if (largest == HUGE_VAL || !(sum >= 1)) return NAN;
    return p.log() ? std::log(sum) : 1 / sum;
  }

  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> cpu_rows(const SolverInfo& info, Direction d) {
  return std::make_unique<CpuRows>(info, d);
}

}  // namespace polymio::softmax
