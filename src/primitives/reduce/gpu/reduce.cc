// ReduceGpuRows: the row skeleton. ReduceGpuColumns: the column skeleton in two stages, where neighbours in memory are
// kept. A program serves every shape. Tuning knobs: threads of a row, in one block or several; blocks of a column.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "core/kernel_builder.h"
#include "primitives/common/gpu/skeletons.h"
#include "primitives/reduce/solvers.h"

namespace polymio::reduce {
namespace {

using gpu_skeletons::ColumnPlan;
using gpu_skeletons::kRowThreads;
using gpu_skeletons::RowPlan;
using gpu_skeletons::value_argument;
using kernels::Nest;
using kernels::Sides;

/// What a program is compiled for.
struct Program {
  Op op;
  Nan nan;
  DataType in, out;
  bool positions, columns;
};

Program program_of(const Problem& p, bool columns) {
  const bool extreme = is_extreme(p.op), counts_nan = extreme || p.nan == Nan::kZero;
  return {p.op == Op::kAvg ? Op::kAdd : p.op,
          counts_nan ? p.nan : Nan::kIgnore,
          p.a.type,
          p.has_values() ? p.c.type : p.a.type,
          p.has_positions(),
          columns};
}

/// Products and squares of floats exceed their range.
bool computes_in_double(const Program& p) {
  if (p.in == DataType::kDouble || p.in == DataType::kInt32) return true;
  const bool wide = p.in == DataType::kFloat || p.in == DataType::kBFloat16;
  return p.op == Op::kMul || (p.op == Op::kNorm2 && wide);
}

/// All entry points of the program's skeleton.
std::vector<KernelSpec> specs_of(const DeviceInfo& device, const Program& p) {
  const bool in_double = device.gpu.fp64 && computes_in_double(p);
  std::vector<std::string> options = {fmt::format("-DIN={}", name_of(p.in)),
                                      fmt::format("-DOUT={}", name_of(p.out)),
                                      fmt::format("-DNUM={}", in_double ? "double" : "float"),
                                      fmt::format("-DOPERATION={}", static_cast<int>(p.op)),
                                      fmt::format("-DNAN_RULE={}", static_cast<int>(p.nan)),
                                      fmt::format("-DPOSITIONS={}", p.positions ? 1 : 0)};
  if (p.columns) options.emplace_back("-DCOLUMNS");
  if (device.gpu.fp64) options.emplace_back("-DFP64");
  std::vector<KernelSpec> specs;
  const auto add = [&](const auto& entries, std::size_t first) {
    for (std::size_t i = first; i < entries.size(); ++i)
      specs.push_back({"primitives/reduce/gpu/reduce.cl", entries[i], options});
  };
  if (p.columns)
    add(gpu_skeletons::kColumnEntries, gpu_skeletons::kWholeColumnEntries);
  else
    add(gpu_skeletons::kRowEntries, 0);
  return specs;
}

/// Bytes of the program's Accumulator.
std::size_t accumulator_bytes(const DeviceInfo& device, const Program& p) {
  const std::size_t number = device.gpu.fp64 && computes_in_double(p) ? 8 : 4;
  const bool compensated = number == 4 && !is_extreme(p.op) && p.op != Op::kMul;
  return p.positions || compensated ? 2 * number : number;
}

/// Whether neighbours in memory are kept: one dimension, or an inner one that is contiguous (channels of images in
/// NHWC).
bool keeps_neighbours(const Problem& p, const Loop& kept) {
  constexpr std::int64_t kLeastVector = 16;
  if (kept.rank != 2) return kept.rank == 1 && kept.count() > 1;
  const auto& strides = kept.inner().strides;
  return strides[0] == 1 && strides[1] == 1 && (!p.has_positions() || strides[2] == 1) &&
         kept.inner().size >= kLeastVector && kept.inner().size <= kernels::kMaxPartUnits;
}

/// Whether columns are worth a second kernel: neighbours are kept, and columns are long.
bool prefers_columns(const Problem& p) {
  constexpr std::int64_t kLeastLength = 32;
  const Loops loops(p);
  const std::int64_t length = loops.reduced.count();
  return p.allows_workspace() && keeps_neighbours(p, loops.kept) && length >= kLeastLength &&
         length <= kernels::kMaxPartUnits &&
         std::abs(loops.kept.inner().strides[0]) < std::abs(loops.reduced.inner().strides[0]);
}

Nest nest_of(const Problem& p, const Loop& loop) {
  return p.has_positions() ? gpu_skeletons::nest_of(loop, 1, {0, 2, 1}) : gpu_skeletons::nest_of(loop, 1, {0, 1});
}

/// a, positions (if written), c.
Sides sides_of(const Problem& p, const Problem::Args& args) {
  const kernels::Side c{p.has_values() ? args.c : args.positions, size_of(p.has_values() ? p.c.type : p.a.type)};
  Sides sides{};
  sides[0] = {args.a, size_of(p.a.type)};
  sides[1] = p.has_positions() ? kernels::Side{args.positions, sizeof(std::int32_t)} : c;
  sides[2] = c;
  return sides;
}

template <class Real>
struct Formula {
  Real alpha, beta, count;
  int values;
};

/// Calls launch with the program's Formula, in the widest numbers of the device.
template <class Launch>
void with_formula(const DeviceInfo& device, const Problem& p, const Problem::Args& args, const Launch& launch) {
  const auto in = [&]<class Real>(Real) {
    const Formula<Real> formula{static_cast<Real>(args.alpha), static_cast<Real>(args.beta),
                                static_cast<Real>(p.op == Op::kAvg ? p.length() : 1), p.has_values()};
    launch(value_argument(formula));
  };
  device.gpu.fp64 ? in(double{}) : in(float{});
}

constexpr std::size_t kAlignment = 8;  // of accumulators

std::size_t with_alignment(std::size_t bytes) { return bytes == 0 ? 0 : bytes + kAlignment; }

Buffer aligned_workspace(const Problem::Args& args) {
  const auto misaligned = reinterpret_cast<std::uintptr_t>(args.workspace) % kAlignment;
  return {args.workspace, misaligned == 0 ? 0 : kAlignment - misaligned};
}

class GpuReduction : public GpuSolver<Problem> {
 public:
  GpuReduction(const SolverInfo& info, bool columns) : GpuSolver(info), columns_(columns) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    POLYMIO_REQUIRE(d.kind != DeviceKind::kCpu, "does not run on this kind of device");
    POLYMIO_REQUIRE(is_supported(d, p), "the device has no double-precision arithmetic");
    return {};
  }

  /// The other skeleton takes twice as long where one suits; fewer threads than fill the device take longer.
  double estimate(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    constexpr double kLaunchUs = 3, kThreadsPerUnit = 1024;
    const double threads = static_cast<double>(p.c.count()) * t[0] * (columns_ ? kRowThreads : 1);
    const double busy = t[0] == kAsPlanned ? 1 : std::min(threads / (kThreadsPerUnit * std::max(d.units, 1)), 1.0);
    const double traffic = p.work() / std::max(d.bandwidth_gbs, 1.0) * 1e-3;
    return kLaunchUs + traffic * (prefers_columns(p) == columns_ ? 1 : 2) / busy;
  }

  TunePoint default_point(const DeviceInfo&, const Problem&) const override { return {kAsPlanned}; }
  std::vector<KernelSpec> kernel_specs(const DeviceInfo& d, const Problem& p, const TunePoint&) const override {
    return specs_of(d, program_of(p, columns_));
  }

 protected:
  static constexpr int kAsPlanned = 0;

 private:
  bool columns_;
};

class GpuRows final : public GpuReduction {
 public:
  explicit GpuRows(const SolverInfo& info) : GpuReduction(info, false) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    if (const Verdict v = GpuReduction::is_applicable(d, p); !v) return v;
    POLYMIO_REQUIRE_MOST(p.length(), most_elements(p), "elements of a row");
    return {};
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override {
    TuneSpace space = {{"threads", {kAsPlanned}}};
    for (int threads = 1; threads <= kRowThreads * kMostBlocks; threads *= 2) space[0].values.push_back(threads);
    return space;
  }
  bool is_valid(const DeviceInfo&, const Problem& p, const TunePoint& t) const override {
    if (t[0] <= kRowThreads) return t[0] < 2 * p.length();
    return p.allows_workspace() && std::int64_t{t[0]} * kLeastPerThread <= p.length();
  }
  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    return with_alignment(plan(d, rows_of(p), t).workspace(accumulator_bytes(d, program_of(p, false))));
  }

  Invoker assemble(const DeviceInfo& device, const Problem& p, const TunePoint& t,
                   const Kernels& built) const override {
    return [p, t, built, device, rows = rows_of(p)](Stream& stream, const Args& args) {
      gpu_skeletons::Rows now = rows;
      now.sides = sides_of(p, args);
      const auto kernel_of = [&](gpu_skeletons::RowEntry e) -> const Kernel& {
        return *built[static_cast<std::size_t>(e)];
      };
      with_formula(device, p, args, [&](const Argument& formula) {
        launch_row(stream, kernel_of, plan(device, now, t), now.sides, formula, aligned_workspace(args));
      });
    };
  }

 private:
  static constexpr int kMostBlocks = 64, kLeastPerThread = 4;

  static gpu_skeletons::Rows rows_of(const Problem& p) {
    const Loops loops(p);
    Loop all = loops.kept;
    for (std::size_t d = 0; d < loops.reduced.rank; ++d) all.push(loops.reduced.dims[d]);
    return {nest_of(p, all), sides_of(p, {}), static_cast<int>(loops.reduced.rank), 0};
  }
  /// As many as the skeleton counts, in vectors where it takes these.
  static std::int64_t most_elements(const Problem& p) {
    if (p.length() <= kernels::kMaxPartUnits) return kernels::kMaxPartUnits;
    gpu_skeletons::Rows rows = rows_of(p);
    const int vector =
        kernels::vector_of(rows.sides[0].size, rows.sides[static_cast<std::size_t>(rows.nest.operands) - 1].size);
    rows.nest.operands = rows.nest.inputs;
    return kernels::kMaxPartUnits * (takes_vectors(rows.nest, rows.sides, vector) ? vector : 1);
  }
  static RowPlan plan(const DeviceInfo& device, const gpu_skeletons::Rows& rows, const TunePoint& t) {
    RowPlan plan = plan_row(device, rows);
    if (t[0] == kAsPlanned) return plan;
    plan.shape.lanes = std::min(t[0], kRowThreads);
    plan.shape.parts = std::max(t[0] / kRowThreads, 1);
    return plan;
  }
};

class GpuColumns final : public GpuReduction {
 public:
  explicit GpuColumns(const SolverInfo& info) : GpuReduction(info, true) {}

  Verdict is_applicable(const DeviceInfo& d, const Problem& p) const override {
    if (const Verdict v = GpuReduction::is_applicable(d, p); !v) return v;
    POLYMIO_REQUIRE(keeps_neighbours(p, Loops(p).kept), "takes neighbours in memory that are kept");
    POLYMIO_REQUIRE_MOST(p.length(), kernels::kMaxPartUnits, "elements of a column");
    return {};
  }

  TuneSpace tune_space(const DeviceInfo&, const Problem&) const override {
    return {{"blocks", {kAsPlanned, 1, 2, 4, 8, 16, 32, 64}}};
  }
  bool is_valid(const DeviceInfo&, const Problem& p, const TunePoint& t) const override {
    return t[0] <= 1 || (p.allows_workspace() && t[0] <= p.length());
  }
  /// That of buffers at any address.
  std::size_t workspace_size(const DeviceInfo& d, const Problem& p, const TunePoint& t) const override {
    Args unaligned;
    unaligned.a = reinterpret_cast<const void*>(size_of(p.a.type));
    gpu_skeletons::Columns columns = columns_of(p);
    const std::size_t bytes = accumulator_bytes(d, program_of(p, true)), aligned = plan(d, columns, t).workspace(bytes);
    columns.sides = sides_of(p, unaligned);
    return with_alignment(std::max(aligned, plan(d, columns, t).workspace(bytes)));
  }

  Invoker assemble(const DeviceInfo& device, const Problem& p, const TunePoint& t,
                   const Kernels& built) const override {
    return [p, t, built, device, columns = columns_of(p)](Stream& stream, const Args& args) {
      gpu_skeletons::Columns now = columns;
      now.sides = sides_of(p, args);
      const ColumnPlan planned = plan(device, now, t);
      const auto kernel_of = [&](gpu_skeletons::ColumnEntry e) -> const Kernel& {
        return *built[static_cast<std::size_t>(e) - gpu_skeletons::kWholeColumnEntries];
      };
      with_formula(device, p, args, [&](const Argument& formula) {
        launch_column_partials(stream, kernel_of(planned.entry), kernel_of(gpu_skeletons::ColumnEntry::kFinish),
                               planned, now.sides, formula, aligned_workspace(args));
      });
    };
  }

 private:
  static gpu_skeletons::Columns columns_of(const Problem& p) {
    const Loops loops(p);
    gpu_skeletons::Columns columns{nest_of(p, loops.reduced), sides_of(p, {}), {}};
    columns.shape.columns = loops.kept.count();
    const Nest kept = nest_of(p, loops.kept);
    for (std::size_t o = 0; o < static_cast<std::size_t>(kept.operands); ++o) {
      columns.shape.stride[o] = kept.dim(0).strides[o];
      columns.shape.vector[o] = kept.rank == 1 ? 1 : static_cast<int>(kept.inner().size);
    }
    return columns;
  }
  static ColumnPlan plan(const DeviceInfo& device, const gpu_skeletons::Columns& columns, const TunePoint& t) {
    ColumnPlan plan = plan_column_partials(device, columns);
    if (t[0] == kAsPlanned) return plan;
    plan.blocks = plan.blocks / plan.parts * t[0];
    plan.parts = t[0];
    return plan;
  }
};

}  // namespace

std::unique_ptr<const SolverBase> gpu_rows(const SolverInfo& info, Direction) {
  return std::make_unique<GpuRows>(info);
}

std::unique_ptr<const SolverBase> gpu_columns(const SolverInfo& info, Direction) {
  return std::make_unique<GpuColumns>(info);
}

std::vector<KernelSpec> programs(const DeviceInfo& device, const Problem& p) {
  if (device.kind == DeviceKind::kCpu || !is_supported(device, p)) return {};
  std::vector<KernelSpec> specs = specs_of(device, program_of(p, false));
  std::ranges::move(specs_of(device, program_of(p, true)), std::back_inserter(specs));
  return specs;
}

}  // namespace polymio::reduce
