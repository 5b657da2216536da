// Reductions on GPUs: by rows, or by columns where neighbours of kept dimensions are contiguous. A program serves every
// shape, so there are no plans: kernels are cached by operation and types.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/math.h"
#include "core/kernel_builder.h"
#include "primitives/common/gpu/skeletons.h"
#include "primitives/reduce/passes.h"

namespace polymio::reduce {
namespace {

using gpu_skeletons::ColumnPlan;
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
          p.values ? p.c.type : p.a.type,
          p.has_positions(),
          columns};
}

/// Products and squares of floats exceed their range.
bool computes_in_double(const Program& p) {
  if (p.in == DataType::kDouble || p.in == DataType::kInt32) return true;
  const bool wide = p.in == DataType::kFloat || p.in == DataType::kBFloat16;
  return p.op == Op::kMul || (p.op == Op::kNorm2 && wide);
}

KernelSpec spec_of(const DeviceInfo& device, const Program& p, const char* entry) {
  const bool in_double = device.gpu.fp64 && computes_in_double(p);
  KernelSpec spec{"primitives/reduce/gpu/reduce.cl", entry, {}};
  spec.options = {fmt::format("-DIN={}", name_of(p.in)),
                  fmt::format("-DOUT={}", name_of(p.out)),
                  fmt::format("-DNUM={}", in_double ? "double" : "float"),
                  fmt::format("-DOPERATION={}", static_cast<int>(p.op)),
                  fmt::format("-DNAN_RULE={}", static_cast<int>(p.nan)),
                  fmt::format("-DPOSITIONS={}", p.positions ? 1 : 0)};
  if (p.columns) spec.options.emplace_back("-DCOLUMNS");
  if (device.gpu.fp64) spec.options.emplace_back("-DFP64");
  return spec;
}

std::span<const char* const> entries_of(const Program& p) {
  if (p.columns) return std::span(gpu_skeletons::kColumnEntries).subspan(gpu_skeletons::kWholeColumnEntries);
  return gpu_skeletons::kRowEntries;
}

SharedKernels& shared = *new SharedKernels;

/// `entry`: its index in entries_of().
const Kernel& kernel(Stream& stream, const Program& p, std::size_t entry) {
  std::uint64_t number = 0;  // 9 bits for each part: the largest data type is 0x101
  for (const std::size_t part : {static_cast<std::size_t>(p.op), static_cast<std::size_t>(p.nan),
                                 static_cast<std::size_t>(p.in), static_cast<std::size_t>(p.out), entry})
    number = number << 9 | part;
  number = number << 2 | (p.positions ? 2u : 0u) | (p.columns ? 1u : 0u);
  return shared.get(stream, number, [&] { return spec_of(stream.info(), p, entries_of(p)[entry]); });
}

/// Bytes of the program's Accumulator.
std::size_t accumulator_bytes(const DeviceInfo& device, const Program& p) {
  const std::size_t number = device.gpu.fp64 && computes_in_double(p) ? 8 : 4;
  const bool compensated = number == 4 && !is_extreme(p.op) && p.op != Op::kMul;
  return p.positions || compensated ? 2 * number : number;
}

/// A launch's operands a, positions (if written), c, and how they are reduced.
struct Plan {
  Plan(const DeviceInfo&, const Problem&, const Args&);
  std::size_t workspace(const DeviceInfo& device) const {
    const std::size_t bytes = accumulator_bytes(device, program);
    return by_columns ? columns.workspace(bytes) : rows.workspace(bytes);
  }

  bool by_columns;
  Program program;
  Sides sides{};
  RowPlan rows;
  ColumnPlan columns;
};

/// Whether neighbours in memory are kept: one dimension, or an inner one that is contiguous (channels of images in
/// NHWC).
bool keeps_neighbours(const Problem& p, const Loop& kept) {
  constexpr std::int64_t kLeastVector = 16;
  if (kept.rank != 2) return kept.rank == 1 && kept.count() > 1;
  const auto& strides = kept.inner().strides;
  return strides[0] == 1 && strides[1] == 1 && (!p.has_positions() || strides[2] == 1) &&
         kept.inner().size >= kLeastVector && kept.inner().size <= kernels::kMaxPartUnits;
}

/// Whether to reduce columns of memory: neighbours are kept, and columns are worth a second kernel.
bool has_columns(const Problem& p, const Loops& loops) {
  constexpr std::int64_t kLeastLength = 32;
  const std::int64_t length = loops.reduced.count();
  return p.allows_workspace && keeps_neighbours(p, loops.kept) && length >= kLeastLength &&
         length <= kernels::kMaxPartUnits &&
         std::abs(loops.kept.inner().strides[0]) < std::abs(loops.reduced.inner().strides[0]);
}

Nest nest_of(const Problem& p, const Loop& loop) {
  return p.has_positions() ? gpu_skeletons::nest_of(loop, 1, {0, 2, 1}) : gpu_skeletons::nest_of(loop, 1, {0, 1});
}

Plan::Plan(const DeviceInfo& device, const Problem& p, const Args& args) {
  const Loops loops(p);
  by_columns = has_columns(p, loops);
  program = program_of(p, by_columns);
  const kernels::Side c{p.values ? args.c : args.positions, size_of(program.out)};
  sides[0] = {args.a, size_of(p.a.type)};
  sides[1] = p.has_positions() ? kernels::Side{args.positions, sizeof(std::int32_t)} : c;
  sides[2] = c;
  if (by_columns) {
    gpu_skeletons::Columns all{nest_of(p, loops.reduced), sides, {}};
    all.shape.columns = loops.kept.count();
    const Nest kept = nest_of(p, loops.kept);
    for (std::size_t o = 0; o < static_cast<std::size_t>(kept.operands); ++o) {
      all.shape.stride[o] = kept.dim(0).strides[o];
      all.shape.vector[o] = kept.rank == 1 ? 1 : static_cast<int>(kept.inner().size);
    }
    columns = plan_column_partials(device, all);
    return;
  }
  Loop all = loops.kept;
  for (std::size_t d = 0; d < loops.reduced.rank; ++d) all.push(loops.reduced.dims[d]);
  rows = gpu_skeletons::plan_row(device, {nest_of(p, all), sides, static_cast<int>(loops.reduced.rank), 0});
  if (!p.allows_workspace) rows.shape.parts = 1;
}

template <class Real>
struct Formula {
  Real alpha, beta, count;
  int values;
};

constexpr std::size_t kAlignment = 8;  // of accumulators

}  // namespace

bool is_supported(const DeviceInfo& device, const Problem& p) {
  const auto wide = [](DataType t) { return t == DataType::kDouble || t == DataType::kInt32; };
  return device.kind == DeviceKind::kCpu || device.gpu.fp64 || !(wide(p.a.type) || (p.values && wide(p.c.type)));
}

std::size_t gpu_workspace(const DeviceInfo& device, const Problem& p) {
  Args unaligned;
  unaligned.a = reinterpret_cast<const void*>(size_of(p.a.type));
  const std::size_t bytes =
      std::max(Plan(device, p, {}).workspace(device), Plan(device, p, unaligned).workspace(device));
  return bytes == 0 ? 0 : bytes + kAlignment;
}

void run_gpu(Stream& stream, const Problem& p, const Args& args) {
  if (!is_supported(stream.info(), p))
    fail(Status::kNotImplemented, "{} has no double-precision arithmetic, which these data types need",
         stream.info().name);
  stream.check_memory(args.a, "the buffer of a");
  if (p.values) stream.check_memory(args.c, "the buffer of c");
  if (p.has_positions()) stream.check_memory(args.positions, "the buffer of indices");
  const Plan plan(stream.info(), p, args);
  const auto misaligned = reinterpret_cast<std::uintptr_t>(args.workspace) % kAlignment;
  const Buffer workspace(args.workspace, misaligned == 0 ? 0 : kAlignment - misaligned);
  const auto kernel_of = [&](std::size_t entry) -> const Kernel& { return kernel(stream, plan.program, entry); };
  const auto launch_in = [&]<class Real>(Real) {
    const std::int64_t length = p.op == Op::kAvg ? p.a.count() / p.c.count() : 1;
    const Formula<Real> formula{static_cast<Real>(args.alpha), static_cast<Real>(args.beta), static_cast<Real>(length),
                                p.values};
    if (!plan.by_columns)
      return launch_row(
          stream, [&](gpu_skeletons::RowEntry e) -> const Kernel& { return kernel_of(static_cast<std::size_t>(e)); },
          plan.rows, plan.sides, value_argument(formula), workspace);
    const auto first = static_cast<std::size_t>(gpu_skeletons::ColumnEntry::kPartialElements);
    launch_column_partials(stream, kernel_of(static_cast<std::size_t>(plan.columns.entry) - first),
                           kernel_of(static_cast<std::size_t>(gpu_skeletons::ColumnEntry::kFinish) - first),
                           plan.columns, plan.sides, value_argument(formula), workspace);
  };
  stream.info().gpu.fp64 ? launch_in(double{}) : launch_in(float{});
}

std::vector<KernelSpec> programs(const DeviceInfo& device, const Problem& p) {
  std::vector<KernelSpec> specs;
  if (device.kind == DeviceKind::kCpu || !is_supported(device, p)) return specs;
  for (const bool columns : {false, true}) {
    const Program program = program_of(p, columns);
    for (const char* const entry : entries_of(program)) specs.push_back(spec_of(device, program, entry));
  }
  return specs;
}

}  // namespace polymio::reduce
