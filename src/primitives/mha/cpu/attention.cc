// MhaCpu: blocks of queries, or of scores by matrix products, in the second-level cache; no workspace.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <memory>

#include "primitives/mha/cpu/blocks.h"
#include "primitives/mha/solvers.h"

namespace polymio::mha {
namespace {

constexpr std::int64_t kForwardQueries = 128, kForwardKeys = 512, kBackwardQueries = 256, kBackwardKeys = 256;

class CpuBlocks final : public Solver<Problem> {
 public:
  CpuBlocks(const SolverInfo& info, Direction d) : Solver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo&, const Problem& p) const override {
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    return {};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    const double exponentials = 40.0 * static_cast<double>(p.rows()) * static_cast<double>(p.keys());
    return (p.work() * 1.4 + exponentials) / (std::max(d.fp32_gflops, 1.0) * 1e3) + 5;
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint&) const override {
    const bool forward = p.forward();
    const auto blocks = std::make_shared<const Blocks>(
        p, stream.info().isa, forward ? kForwardQueries : kBackwardQueries, forward ? kForwardKeys : kBackwardKeys);
    stream.reserve_scratch((forward ? forward_scratch : backward_scratch)(*blocks, stream.threads()));
    return [blocks](Stream& on, const Args& a) {
      kernels::AttentionDropout dropout{};
      const bool drops = a.probability && dtype::read<float>(a.probability, 0) > 0;
      if (drops)
        dropout = make_dropout(dtype::read<float>(a.probability, 0), dtype::read<std::int64_t>(a.seed, 0),
                               dtype::read<std::int64_t>(a.offset, 0));
      const Call call{*blocks, a, drops ? &dropout : nullptr};
      blocks->p.forward() ? run_forward(on, call) : run_backward(on, call);
    };
  }

 private:
  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> cpu_blocks(const SolverInfo& info, Direction d) {
  return std::make_unique<CpuBlocks>(info, d);
}

}  // namespace polymio::mha
