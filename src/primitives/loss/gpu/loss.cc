// Losses on GPUs. A program serves every shape, so there are no plans: kernels are cached by type.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "core/kernel_builder.h"
#include "primitives/common/gpu/skeletons.h"
#include "primitives/loss/passes.h"

namespace polymio::loss {
namespace {

using gpu_skeletons::ColumnEntry;
using kernels::Nest;

/// Values of -DPASS of loss.cl; the last two are multi_margin.cl with -DPOWER=1 and 2.
enum class Pass { kEach, kBackward, kSoftMarginSum, kSum, kRows, kSquaredRows };
constexpr int kPasses = 6;

struct Program {
  Pass pass;
  DataType in, out;
};

std::span<const char* const> entries_of(Pass pass) {
  static constexpr auto kFirst = static_cast<std::size_t>(ColumnEntry::kPartialElements);
  if (pass >= Pass::kRows) return gpu_skeletons::kRowEntries;
  if (pass >= Pass::kSoftMarginSum) return std::span(gpu_skeletons::kColumnEntries).subspan(kFirst);
  return gpu_skeletons::kMapEntries;
}

KernelSpec spec_of(const DeviceInfo& device, const Program& p, std::size_t entry) {
  const bool rows = p.pass >= Pass::kRows;
  KernelSpec spec{rows ? "primitives/loss/gpu/multi_margin.cl" : "primitives/loss/gpu/loss.cl",
                  entries_of(p.pass)[entry],
                  {fmt::format("-DIN={}", name_of(p.in)), fmt::format("-DOUT={}", name_of(p.out)),
                   fmt::format("-DNUM={}", p.in == DataType::kDouble ? "double" : "float"),
                   rows ? fmt::format("-DPOWER={}", p.pass == Pass::kRows ? 1 : 2)
                        : fmt::format("-DPASS={}", static_cast<int>(p.pass))}};
  if (device.gpu.fp64) spec.options.emplace_back("-DFP64");
  return spec;
}

SharedKernels& shared = *new SharedKernels;

const Kernel& kernel(Stream& stream, const Program& p, std::size_t entry) {
  const std::uint64_t types = static_cast<std::uint64_t>(p.in) << 9 | static_cast<std::uint64_t>(p.out);
  return shared.get(stream, (types << 3 | static_cast<std::uint64_t>(p.pass)) << 4 | entry,
                    [&] { return spec_of(stream.info(), p, entry); });
}

DataType number_of(DataType type) { return type == DataType::kDouble ? DataType::kDouble : DataType::kFloat; }

void check_device(const Stream& stream, DataType type, std::initializer_list<const void*> buffers) {
  if (type == DataType::kDouble && !stream.info().gpu.fp64)
    fail(Status::kNotImplemented, "{} has no double-precision arithmetic", stream.info().name);
  for (const void* buffer : buffers) stream.check_memory(buffer, "a tensor or the workspace");
}

/// Calls body with the value in the type of the arithmetic.
template <class Body>
void with_scalar(DataType type, double value, const Body& body) {
  type == DataType::kDouble ? body(value) : body(static_cast<float>(value));
}

void launch_map(Stream& stream, const Program& p, const Nest& nest, const kernels::Sides& sides, double scale) {
  const auto plan = gpu_skeletons::plan_map(nest, sides);
  with_scalar(p.in, scale, [&](auto formula) {
    gpu_skeletons::launch_map(stream, kernel(stream, p, static_cast<std::size_t>(plan.entry)), plan, sides,
                              gpu_skeletons::value_argument(formula));
  });
}

/// output = scale * the sum over all elements of the nest, whose last operand is the output.
void launch_sum(Stream& stream, const Program& p, const Nest& nest, const kernels::Sides& sides, double scale,
                Buffer workspace) {
  gpu_skeletons::Columns columns{nest, sides, {}};
  columns.shape.columns = 1;
  for (std::size_t o = 0; o < static_cast<std::size_t>(nest.operands); ++o) columns.shape.vector[o] = 1;
  const auto plan = plan_column_partials(stream.info(), columns);
  const auto kernel_of = [&](ColumnEntry entry) -> const Kernel& {
    return kernel(stream, p, static_cast<std::size_t>(entry) - static_cast<std::size_t>(ColumnEntry::kPartialElements));
  };
  with_scalar(p.in, scale, [&](auto formula) {
    launch_column_partials(stream, kernel_of(plan.entry), kernel_of(ColumnEntry::kFinish), plan, sides,
                           gpu_skeletons::value_argument(formula), workspace);
  });
}

void run_soft_margin(Stream& stream, const SoftMargin& p, const Output& y, const Workspace& workspace) {
  const DataType type = p.x.desc.type;
  const std::size_t size = size_of(type);
  const kernels::Sides sides = {{{p.x.data, size}, {p.target.data, size}, {y.data, size}}};
  check_device(stream, type, {p.x.data, p.target.data, y.data});
  if (p.reduction == Reduction::kNone) {
    const TensorDesc* const tensors[] = {&y.desc, &p.x.desc, &p.target.desc};
    const Nest nest = gpu_skeletons::nest_of(simplified_loop(tensors), 2, {1, 2, 0});
    return launch_map(stream, {Pass::kEach, type, type}, nest, sides, 1);
  }
  check_device(stream, type, {workspace.data});
  const TensorDesc* const tensors[] = {&p.x.desc, &p.target.desc};
  launch_sum(stream, {Pass::kSoftMarginSum, type, type}, gpu_skeletons::nest_of(simplified_loop(tensors), 2, {0, 1, 2}),
             sides, factor_of(p.reduction, p.x.desc.count()), Buffer(workspace.data));
}

void run_soft_margin_backward(Stream& stream, const SoftMargin& p, const Input& dy, const Output& dx) {
  const DataType type = p.x.desc.type;
  const std::size_t size = size_of(type);
  check_device(stream, type, {p.x.data, p.target.data, dy.data, dx.data});
  const TensorDesc* const tensors[] = {&dx.desc, &p.x.desc, &p.target.desc, &dy.desc};
  launch_map(stream, {Pass::kBackward, type, type}, gpu_skeletons::nest_of(simplified_loop(tensors), 3, {1, 2, 3, 0}),
             {{{p.x.data, size}, {p.target.data, size}, {dy.data, size}, {dx.data, size}}},
             factor_of(p.reduction, p.x.desc.count()));
}

/// Formula of multi_margin.cl.
template <class Real>
struct Formula {
  std::int64_t classes, x_stride, weight_stride;
  Real margin, scale;
};

/// Accumulator of multi_margin.cl: three numbers and an int.
std::size_t accumulator_bytes(DataType type) { return type == DataType::kDouble ? 32 : 16; }

/// The losses of rows in the workspace of a reduced loss; other parts follow them.
std::size_t losses_bytes(const MultiMargin& p) {
  if (p.reduction == Reduction::kNone) return 0;
  constexpr std::int64_t kAlignment = 256;
  return static_cast<std::size_t>(
      round_up(p.x.desc.lens[0] * static_cast<std::int64_t>(size_of(number_of(p.x.desc.type))), kAlignment));
}

void launch_rows(Stream& stream, const MultiMargin& p, DataType out, void* losses, std::int64_t stride,
                 Buffer workspace) {
  const TensorDesc& x = p.x.desc;
  gpu_skeletons::Rows rows;
  rows.nest.rank = 2;
  rows.nest.inputs = 3;
  rows.nest.operands = 4;
  rows.nest.dims[0] = {x.lens[0], {x.strides[0], p.target.desc.strides[0], 0, stride}};
  rows.nest.dims[1] = {x.lens[1], {x.strides[1]}};
  const std::size_t size = size_of(x.type);
  rows.sides = {
      {{p.x.data, size}, {p.target.data, sizeof(std::int64_t)}, {p.weight.data, size}, {losses, size_of(out)}}};
  const auto plan = plan_row(stream.info(), rows);
  const Program program{p.power == 2 ? Pass::kSquaredRows : Pass::kRows, x.type, out};
  const auto kernel_of = [&](gpu_skeletons::RowEntry entry) -> const Kernel& {
    return kernel(stream, program, static_cast<std::size_t>(entry));
  };
  with_scalar(x.type, p.margin, [&](auto margin) {
    const Formula<decltype(margin)> formula{x.lens[1], x.strides[1], p.weight.desc.strides[0], margin,
                                            static_cast<decltype(margin)>(1 / static_cast<double>(x.lens[1]))};
    launch_row(stream, kernel_of, plan, rows.sides, gpu_skeletons::value_argument(formula), workspace);
  });
}

void run_multi_margin(Stream& stream, const MultiMargin& p, const Output& y, const Workspace& workspace) {
  const DataType type = p.x.desc.type, number = number_of(type);
  check_device(stream, type, {p.x.data, p.target.data, p.weight.data, y.data});
  if (workspace.data) check_device(stream, type, {workspace.data});
  const Buffer rest(workspace.data, losses_bytes(p));
  if (p.reduction == Reduction::kNone) return launch_rows(stream, p, type, y.data, y.desc.strides[0], rest);
  launch_rows(stream, p, number, workspace.data, 1, rest);
  Nest nest;
  nest.rank = 1;
  nest.inputs = 1;
  nest.operands = 2;
  nest.dims[0] = {p.x.desc.lens[0], {1, 0}};
  launch_sum(stream, {Pass::kSum, number, type}, nest, {{{workspace.data, size_of(number)}, {y.data, size_of(type)}}},
             factor_of(p.reduction, p.x.desc.lens[0]), rest);
}

}  // namespace

std::vector<KernelSpec> programs(const DeviceInfo& device, DataType type) {
  std::vector<KernelSpec> specs;
  const auto add = [&](const Program& p) {
    for (std::size_t e = 0; e < entries_of(p.pass).size(); ++e) specs.push_back(spec_of(device, p, e));
  };
  for (int pass = 0; pass < kPasses; ++pass) add({static_cast<Pass>(pass), type, type});
  const DataType number = number_of(type);
  if (number == type) return specs;
  add({Pass::kSum, number, type});
  for (const Pass pass : {Pass::kRows, Pass::kSquaredRows}) add({pass, type, number});
  return specs;
}

std::size_t gpu_workspace_size(const DeviceInfo& device, const SoftMargin& p) {
  if (p.reduction == Reduction::kNone) return 0;
  return gpu_skeletons::max_column_workspace(device, 1, p.x.desc.count(), size_of(number_of(p.x.desc.type)));
}

std::size_t gpu_workspace_size(const DeviceInfo& device, const MultiMargin& p) {
  const DataType type = p.x.desc.type;
  const std::int64_t rows = p.x.desc.lens[0];
  const std::size_t of_rows = gpu_skeletons::max_row_workspace(device, rows, p.x.desc.lens[1], accumulator_bytes(type));
  if (p.reduction == Reduction::kNone) return of_rows;
  const std::size_t of_sum = gpu_skeletons::max_column_workspace(device, 1, rows, size_of(number_of(type)));
  return losses_bytes(p) + std::max(of_rows, of_sum);
}

const Passes kGpuPasses = {run_soft_margin, run_soft_margin_backward, run_multi_margin};

}  // namespace polymio::loss
