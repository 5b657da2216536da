// NormCpuBlocks: gradients of rows that are contiguous and equally far apart. A task takes some rows at a time: first
// their sums and those of dw and db in one pass, then dx, while dy and x are in the caches. Where rows are so long that
// sums for each block of rows were as large as the tensors, tasks take some columns of all rows instead: dw, db and a
// part of the rows' sums, then dx. Tuning knob: non-temporal stores.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

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
constexpr std::int64_t kTasks = 64;                          // that use most machines' threads
constexpr std::int64_t kSummed = 2048;                       // columns whose sums are on the stack

/// Rows of a block: enough for a task, and for their sums in double to be small beside them; few enough for 64 tasks,
/// if that is possible. The number of threads does not matter: sums would depend on it.
std::int64_t block_rows(const Problem& p) {
  constexpr std::int64_t kLeast = 8, kEnough = 32;
  const std::int64_t rows = p.rows(), of_task = ceil_div(rows, kTasks);
  const std::int64_t enough = std::clamp(common::kReductionTask / p.length(), kLeast, kEnough);
  return std::min(rows, std::max(enough, of_task));
}

/// Whether sums for each block of rows would take longer than reading dy and x twice: if blocks have few rows, which
/// the caches do not keep; or if the sums of a block are large.
bool has_long_rows(const Problem& p) {
  constexpr std::int64_t kLong = 1 << 14, kLongest = 1 << 16, kMostRows = 1024, kLeastShare = 32, kLeastCount = 1 << 20;
  const std::int64_t rows = p.rows(), length = p.length();
  return length > kLongest ||
         (length >= kLong && rows <= std::min(kMostRows, length / kLeastShare) && p.x.count() >= kLeastCount);
}

/// Columns of a task: enough for it; more if that leaves 64 tasks.
std::int64_t task_columns(const Problem& p) {
  const std::int64_t enough = std::max(common::kReductionTask / p.rows(), p.length() / kTasks);
  return std::max<std::int64_t>(enough / kColumns, 1) * kColumns;
}

std::int64_t tasks_of(const Problem& p) {
  return has_long_rows(p) ? ceil_div(p.length(), task_columns(p)) : ceil_div(p.rows(), block_rows(p));
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
        tasks_(tasks_of(p)),
        together_(std::clamp<std::int64_t>(kBlockBytes / (4 * length_ * size()), kLeastRows, kRows)),
        kernels_(kernels),
        variant_{p.x.type,    p.parameters, p.statistics, p.kind == Kind::kRms, false, p.affine == Affine::kYes,
                 non_temporal},
        gradient_(kernels.gradient(variant_)),
        prefetches_(common::prefetches_rows(length_ * size()) && rows_ * length_ * size() > kernels::kResultCaches) {
    const Loop kept = loops_of(p).kept;
    for (std::size_t o = 0; o < stride_.size(); ++o) stride_[o] = kept.inner().strides[o] * size();
  }

  void run(Stream& stream, const Problem::Args& a) const {
    has_long_rows(p_) ? run_columns(stream, a) : run_blocks(stream, a);
  }

 private:
  using Values = std::array<double, kernels::kMaxAccumulators* static_cast<std::size_t>(kRows)>;
  struct Part {
    std::int64_t row, rows, column, columns;
  };

  void run_blocks(Stream& stream, const Problem::Args& a) const {
    const std::size_t parameters = is_rms() ? 1 : 2;
    const std::int64_t sums = static_cast<std::int64_t>(parameters) * length_;
    // [block][parameter][column]
    const auto table = std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(tasks_ * sums));
    stream.parallel_for(static_cast<std::size_t>(tasks_), 0, [&](std::size_t i, void*) {
      const std::int64_t first = static_cast<std::int64_t>(i) * block_, end = std::min(first + block_, rows_);
      double* const of_block = table.get() + static_cast<std::int64_t>(i) * sums;
      std::fill_n(of_block, sums, 0.0);
      if (is_short())
        return kernels_.gradient_of_short_rows(variant_, run_of(a, {first, end - first, 0, length_}), of_block);
      Values values;
      for (Part part{first, 0, 0, length_}; part.row < end; part.row += part.rows) {
        part.rows = std::min(together_, end - part.row);
        kernels_.gradient_sums(variant_, run_of(a, part), values.data(), kRows, of_block);
        mean_gradients(p_, part.rows, values.data(), kRows);
        apply(a, part, values.data(), kRows);
      }
    });
    for_ranges(stream, length_, kColumns, [&](std::int64_t first, std::int64_t end) {
      std::array<std::array<double, kColumns>, 2> sum{};
      for (std::int64_t b = 0; b < tasks_; ++b)
        for (std::size_t k = 0; k < parameters; ++k) {
          const double* const part = table.get() + b * sums + static_cast<std::int64_t>(k) * length_;
          for (std::int64_t c = first; c < end; ++c) sum[k][static_cast<std::size_t>(c - first)] += part[c];
        }
      store(a, first, end - first, sum[0].data(), sum[1].data());
    });
  }

  void run_columns(Stream& stream, const Problem::Args& a) const {
    const std::int64_t columns = task_columns(p_);
    const auto task = [&](std::size_t i) {
      const std::int64_t first = static_cast<std::int64_t>(i) * columns;
      return Part{0, 0, first, std::min(columns, length_ - first)};
    };
    std::vector<double> table(static_cast<std::size_t>(tasks_ * 2 * rows_));  // [task][value][row]
    stream.parallel_for(static_cast<std::size_t>(tasks_), 0, [&](std::size_t i, void*) {
      sum_columns(a, task(i), table.data() + static_cast<std::int64_t>(i) * 2 * rows_);
    });
    for (std::int64_t i = 1; i < tasks_; ++i)
      std::transform(table.begin(), table.begin() + 2 * rows_, table.begin() + i * 2 * rows_, table.begin(),
                     std::plus<>());
    mean_gradients(p_, rows_, table.data(), rows_);
    stream.parallel_for(static_cast<std::size_t>(tasks_), 0, [&](std::size_t i, void*) {
      for (Part part = task(i); part.row < rows_; part.row += part.rows) {
        part.rows = std::min(kRows, rows_ - part.row);
        apply(a, part, table.data() + part.row, rows_);
      }
    });
  }

  /// dw and db of the columns of a task; its part of the rows' sums is added to values[value][row].
  void sum_columns(const Problem::Args& a, const Part& task, double* values) const {
    for (std::int64_t c = 0; c < task.columns; c += kSummed) {
      Part part{0, 0, task.column + c, std::min(kSummed, task.columns - c)};
      std::array<double, 2 * static_cast<std::size_t>(kSummed)> sums{};
      for (; part.row < rows_; part.row += part.rows) {
        part.rows = std::min(kRows, rows_ - part.row);
        Values of_part;
        kernels_.gradient_sums(variant_, run_of(a, part), of_part.data(), kRows, sums.data());
        for (std::int64_t k = 0; k < 2; ++k)
          for (std::int64_t i = 0; i < part.rows; ++i)
            values[k * rows_ + part.row + i] += of_part[static_cast<std::size_t>(k * kRows + i)];
      }
      store(a, part.column, part.columns, sums.data(), sums.data() + part.columns);
    }
  }

  bool is_rms() const { return variant_.rms; }
  bool is_short() const { return length_ * size() <= kernels::kShortRowBytes; }
  std::int64_t size() const { return static_cast<std::int64_t>(size_of(p_.x.type)); }
  char* at(const void* data, std::size_t operand, const Part& part) const {
    return static_cast<char*>(const_cast<void*>(data)) + part.row * stride_[operand] + part.column * size();
  }

  kernels::Run run_of(const Problem::Args& a, const Part& part) const {
    kernels::Run run{.in = {at(a.dy, 1, part), at(a.x, 2, part)},
                     .out = {at(a.dx, 0, part)},
                     .n = part.columns,
                     .rows = part.rows,
                     .in_row_bytes = {stride_[1], stride_[2]},
                     .out_row_bytes = {stride_[0]},
                     .prefetches = prefetches_};
    std::size_t k = 2;
    if (variant_.affine)
      run.in[k++] =
          static_cast<const char*>(a.weight) + part.column * static_cast<std::int64_t>(size_of(p_.parameters));
    const auto statistic = static_cast<std::int64_t>(size_of(p_.statistics));
    for (const void* of_row : {is_rms() ? nullptr : a.mean, a.rstd}) {
      if (!of_row) continue;
      run.repeats |= 1u << k;
      run.in[k] = static_cast<const char*>(of_row) + part.row * statistic;
      run.in_row_bytes[k++] = statistic;
    }
    return run;
  }
  /// dx from the rows' sums divided by their elements.
  void apply(const Problem::Args& a, const Part& part, const double* values, std::int64_t pitch) const {
    const kernels::NormJob job{variant_.non_temporal};
    gradient_->apply(&job, run_of(a, part), values, pitch, 1);
  }
  void store(const Problem::Args& a, std::int64_t first, std::int64_t n, const double* dw, const double* db) const {
    dtype::store_many(p_.parameters, a.dw, first, n, dw);
    if (!is_rms()) dtype::store_many(p_.parameters, a.db, first, n, db);
  }

  Problem p_;
  std::int64_t rows_, length_, block_, tasks_, together_;
  const kernels::NormKernels& kernels_;
  kernels::NormVariant variant_;
  const kernels::Reduction<>* gradient_;
  bool prefetches_;
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
    const bool suits = common::fills_lines(p.length() * static_cast<std::int64_t>(size_of(p.x.type)));
    return {suits && common::exceeds_caches(d, p.work()) ? 1 : 0};
  }

  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    const auto tasks = static_cast<double>(tasks_of(p));
    const double idle = std::ceil(tasks / d.threads) * d.threads / tasks;  // threads without a task in the last round
    return 3 + idle * traffic_us(d, p, has_long_rows(p) ? 2 : 0, t[0] != 0);
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
