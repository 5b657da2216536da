// NormCpuBlocks: gradients of rows that are contiguous and equally far apart. A task takes some rows at a time: first
// their sums and those of dw and db in one pass, then dx, while dy and x are in the caches. Tuning knob: non-temporal
// stores.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "base/math.h"
#include "kernels/cpu/kernels_of.h"
#include "kernels/cpu/norm.h"
#include "primitives/common/caches.h"
#include "primitives/norm/solvers.h"

namespace polymio::norm {
namespace {

constexpr std::int64_t kBlockBytes = std::int64_t{1} << 19;  // of dy and x: half of a usual L2 cache
constexpr std::int64_t kLeastRows = 8, kRows = 16;           // that are computed together
constexpr std::int64_t kColumns = 512;                       // of which a task adds up the blocks' sums

/// Rows of a block: enough for a task, and for their sums in double to be small beside them; few enough for 64 tasks,
/// if that is possible. The number of threads does not matter: sums would depend on it.
std::int64_t block_rows(const Problem& p) {
  constexpr std::int64_t kLeast = 8, kEnough = 32, kTasks = 64;
  const std::int64_t rows = p.rows(), of_task = ceil_div(rows, kTasks);
  const std::int64_t least = std::clamp(std::max(of_task, common::kReductionTask / p.length()), kLeast, kEnough);
  const std::int64_t most = std::max(least, of_task);
  const std::int64_t cached = kBlockBytes / (2 * p.length() * static_cast<std::int64_t>(size_of(p.x.type)));
  return std::min(rows, std::clamp(cached, least, most));
}

/// dx, dy, x, and a parameter, which has the order of the elements of a row.
common::RowLoops loops_of(const Problem& p) {
  const TensorDesc parameter = parameter_desc(p);
  const TensorDesc* const operands[] = {&p.dx, &p.dy, &p.x, &parameter};
  return rows_of(p, operands);
}

/// The rows of a problem, and the buffers of a call.
class Blocks {
 public:
  Blocks(const Problem& p, const kernels::NormKernels& kernels, bool non_temporal)
      : p_(p),
        rows_(p.rows()),
        length_(p.length()),
        block_(block_rows(p)),
        blocks_(ceil_div(rows_, block_)),
        together_(std::clamp<std::int64_t>(kBlockBytes / (4 * length_ * size()), kLeastRows, kRows)),
        kernels_(kernels),
        variant_{p.x.type, p.parameters, p.statistics, p.kind == Kind::kRms, false, p.affine == Affine::kYes},
        gradient_(kernels.gradient(variant_)),
        non_temporal_(non_temporal) {
    const Loop kept = loops_of(p).kept;
    for (std::size_t o = 0; o < stride_.size(); ++o) stride_[o] = kept.inner().strides[o] * size();
  }

  void run(Stream& stream, const Problem::Args& a) const {
    const std::size_t parameters = is_rms() ? 1 : 2;
    const std::int64_t sums = static_cast<std::int64_t>(parameters) * length_;
    // [block][parameter][column]
    const auto table = std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(blocks_ * sums));
    stream.parallel_for(static_cast<std::size_t>(blocks_), 0, [&](std::size_t i, void*) {
      const std::int64_t first = static_cast<std::int64_t>(i) * block_, end = std::min(first + block_, rows_);
      double* const of_block = table.get() + static_cast<std::int64_t>(i) * sums;
      std::fill_n(of_block, sums, 0.0);
      for (std::int64_t row = first, n; row < end; row += n)
        compute_rows(a, row, n = std::min(together_, end - row), of_block);
    });
    for_ranges(stream, length_, kColumns, [&](std::int64_t first, std::int64_t end) {
      std::array<std::array<double, kColumns>, 2> sum{};
      for (std::int64_t b = 0; b < blocks_; ++b)
        for (std::size_t k = 0; k < parameters; ++k) {
          const double* const part = table.get() + b * sums + static_cast<std::int64_t>(k) * length_;
          for (std::int64_t c = first; c < end; ++c) sum[k][static_cast<std::size_t>(c - first)] += part[c];
        }
      dtype::store_many(p_.parameters, a.dw, first, end - first, sum[0].data());
      if (!is_rms()) dtype::store_many(p_.parameters, a.db, first, end - first, sum[1].data());
    });
  }

 private:
  bool is_rms() const { return variant_.rms; }
  std::int64_t size() const { return static_cast<std::int64_t>(size_of(p_.x.type)); }
  char* at(const void* data, std::size_t operand, std::int64_t row) const {
    return static_cast<char*>(const_cast<void*>(data)) + row * stride_[operand];
  }

  /// dx of n rows; dw and db are added to `sums`.
  void compute_rows(const Problem::Args& a, std::int64_t first, std::int64_t n, double* sums) const {
    const kernels::NormJob job{non_temporal_};
    kernels::Run run{.in = {at(a.dy, 1, first), at(a.x, 2, first), a.weight},
                     .out = {at(a.dx, 0, first)},
                     .n = length_,
                     .rows = n,
                     .in_row_bytes = {stride_[1], stride_[2]},
                     .out_row_bytes = {stride_[0]}};
    const auto statistic = static_cast<std::int64_t>(size_of(p_.statistics));
    std::size_t k = variant_.affine ? 3 : 2;
    for (const void* of_row : {is_rms() ? nullptr : a.mean, a.rstd}) {
      if (!of_row) continue;
      run.repeats |= 1u << k;
      run.in[k] = static_cast<const char*>(of_row) + first * statistic;
      run.in_row_bytes[k++] = statistic;
    }
    std::array<double, kernels::kMaxAccumulators* static_cast<std::size_t>(kRows)> values;
    kernels_.gradient_sums(variant_, run, values.data(), kRows, sums);
    mean_gradients(p_, n, values.data(), kRows);
    gradient_->apply(&job, run, values.data(), kRows, 1);
  }

  Problem p_;
  std::int64_t rows_, length_, block_, blocks_, together_;
  const kernels::NormKernels& kernels_;
  kernels::NormVariant variant_;
  const kernels::Reduction<>* gradient_;
  bool non_temporal_;
  std::array<std::int64_t, 3> stride_{};  // bytes between rows of dx, dy and x
};

class CpuBlocks final : public Solver<Problem> {
 public:
  CpuBlocks(const SolverInfo& info, Direction d) : Solver(info), direction_(d) {}

  Verdict is_applicable(const DeviceInfo&, const Problem& p) const override {
    POLYMIO_REQUIRE(p.direction == direction_, "computes another direction");
    const common::RowLoops loops = loops_of(p);
    POLYMIO_REQUIRE(loops.reduced.rank == 1 && loops.reduced.contiguous(),
                    "rows must be contiguous, in the order of weight");
    POLYMIO_REQUIRE(loops.kept.rank == 1, "rows must be equally far apart");
    return {};
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override { return {{"non_temporal", {0, 1}}}; }
  bool is_valid(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    return t[0] == 0 || p.work() > static_cast<double>(d.cache_bytes[1]);
  }
  TunePoint default_point(const DeviceInfo& d, const Problem& p) const override {
    return {common::exceeds_caches(d, p.work()) ? 1 : 0};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    const double tasks = static_cast<double>(ceil_div(p.rows(), block_rows(p)));
    const double idle = std::ceil(tasks / d.threads) * d.threads / tasks;  // threads without a task in the last round
    return 3 + idle * traffic_us(d, p, 0, t[0] != 0);
  }

  Invoker build(Stream& stream, const Problem& p, const TunePoint& t) const override {
    const auto& kernels = kernels::kernels_of<kernels::NormKernels>(stream.info().isa);
    return [blocks = Blocks(p, kernels, t[0] != 0)](Stream& on, const Args& a) { blocks.run(on, a); };
  }

 private:
  Direction direction_;
};

}  // namespace

std::unique_ptr<const SolverBase> cpu_blocks(const SolverInfo& info, Direction d) {
  return std::make_unique<CpuBlocks>(info, d);
}

}  // namespace polymio::norm
