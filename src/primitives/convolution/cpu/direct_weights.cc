// ConvCpuDirectWrw: backward weights without column matrices; blocks of dw stay in the cache while strips of x and dy
// pass. Results do not depend on the number of threads: blocks and slices follow from the problem alone.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "primitives/convolution/cpu/cost.h"
#include "primitives/convolution/cpu/products.h"
#include "primitives/convolution/solvers.h"

namespace polymio::convolution {
namespace {

using kernels::DirectGradient;

constexpr std::int64_t kMostScratch = 2 << 20;
constexpr std::int64_t kMostWorkspace = 256 << 20;

DirectGradient job_of(const DeviceInfo& d, const Problem& p) {
  const DataType math = p.x.type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
  return kernels::gradient_job(conv_shape(p), p.w.type, kernel_table(d).direct_unit(math),
                               static_cast<std::int64_t>(d.cache_bytes[1]));
}

/// Cycles of all pieces.
double work_cycles(const DirectGradient& g, DataType type) {
  constexpr double kTile = 30, kBlock = 6, kCopy = 0.5, kRun = 8, kSum = 0.2, kStore = 0.6;
  const kernels::Direct& x = g.x;
  const kernels::ConvShape& s = x.shape;
  const auto real = [](std::int64_t v) { return static_cast<double>(v); };
  const double steps = real(g.steps * g.blocks()), lanes = real(x.unit.lanes);
  const double tap_rows = real(s.taps[0] * s.taps[1]), runs = x.merged ? 1 : real(s.taps[2]);
  const double run = real(x.merged ? s.taps[2] * g.c_block : g.c_block), channels = real(g.k_block);
  const double rows = g.turned_row > 0 ? run : channels,
               vectors = std::ceil((g.turned_row > 0 ? channels : run) / lanes);
  const double lines = real(x.cut.images * x.cut.rows), outputs = lines * real(x.cut.columns);
  const double tile = std::max({14 * vectors / std::ceil(vectors / 2) / 2, 4.0}) * outputs + kTile + kBlock * lines;
  const double tiles = tap_rows * runs * std::ceil(vectors / 2) * std::ceil(rows / 14);
  const double share = std::min(1.0, rows / (14 * std::ceil(rows / 14)) + 0.1);
  const double widen = size_of(type) == 2 ? 1.5 : 1;
  const double copies = real(x.strip.total) * kCopy * widen + real(g.k_block) * (outputs * 0.2 * widen + lines * kRun);
  const double results = real(g.blocks() * g.k_block * g.k_row);
  return steps * (tiles * tile * share + copies) + results * (kStore + kSum * real(g.slices));
}

class CpuDirectWeights final : public Solver<Problem> {
 public:
  SolverInfo info() const override { return cpu_info(15, "ConvCpuDirectWrw", Algorithm::kDirect, 2); }

  Verdict check(const DeviceInfo& d, const Problem& p) const override {
    if (const Verdict v = check_float_problem(p, Direction::kBackwardWeights); !v) return v;
    constexpr std::int64_t kFewChannels = 2;
    POLYMIO_REQUIRE(p.groups() == 1 || std::min(p.c(), p.k()) >= kFewChannels * p.groups(),
                    "groups must have 2 or more channels");
    const DirectGradient job = job_of(d, p);
    POLYMIO_REQUIRE_MOST(job.places.total, kMostScratch, "bytes of scratch for one row of an image");
    POLYMIO_REQUIRE_MOST(static_cast<std::int64_t>(job.workspace()), kMostWorkspace, "bytes of partial sums");
    return {};
  }

  std::size_t workspace(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    return job_of(d, p).workspace();
  }

  double predict(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    const DirectGradient job = job_of(d, p);
    Work work;
    work.pieces = static_cast<double>(job.pieces());
    work.cycles = work_cycles(job, p.x.type);
    work.largest = work.cycles / work.pieces;
    work.bytes = tensor_bytes(p) + 2 * static_cast<double>(job.workspace());
    return Machine(d).loop_us(work, work.bytes);
  }

  Invoker make(Stream& stream, const Problem& p, const TunePoint&) const override {
    const kernels::KernelTable& table = kernel_table(stream.info());
    const auto job = std::make_shared<const DirectGradient>(job_of(stream.info(), p));
    const auto scratch = static_cast<std::size_t>(job->places.total);
    stream.reserve_scratch(scratch);
    return [job, &table, scratch](Stream& on, const Args& a) {
      const kernels::GradientArgs args{a.x, a.y, a.w, a.workspace, a.alpha, a.beta};
      on.parallel_for(static_cast<std::size_t>(job->pieces()), scratch, [&](std::size_t i, void* memory) {
        const auto piece = static_cast<std::int64_t>(i);
        table.gradient(*job, args, piece, piece + 1, memory);
      });
      if (job->slices == 1) return;
      on.parallel_for(static_cast<std::size_t>(job->results()), scratch, [&](std::size_t i, void* memory) {
        const auto part = static_cast<std::int64_t>(i);
        table.gradient_sum(*job, args, part, part + 1, memory);
      });
    };
  }
};

}  // namespace

const Solver<Problem>& cpu_direct_weights() {
  static constexpr CpuDirectWeights kSolver;
  return kSolver;
}

}  // namespace polymio::convolution
