// PReLU gradients on GPUs. A program serves every shape, so there are no plans: kernels are cached by type.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "base/error.h"
#include "core/kernel_builder.h"
#include "primitives/common/gpu/skeletons.h"
#include "primitives/prelu/passes.h"

namespace polymio::prelu {
namespace {

using gpu_skeletons::ColumnEntry;

/// Numbers of the kernels: the map's entry points, then those of the columns that have workspace.
constexpr std::size_t kMaps = gpu_skeletons::kMapEntries.size();
constexpr std::size_t kFirstColumn = static_cast<std::size_t>(ColumnEntry::kPartialElements);
constexpr std::size_t kKernels = kMaps + gpu_skeletons::kColumnEntries.size() - kFirstColumn;

KernelSpec spec_of(const DeviceInfo& device, DataType type, std::size_t number) {
  const bool map = number < kMaps;
  KernelSpec spec{
      map ? "primitives/prelu/gpu/prelu.cl" : "primitives/prelu/gpu/prelu_weight.cl",
      map ? gpu_skeletons::kMapEntries[number] : gpu_skeletons::kColumnEntries[number - kMaps + kFirstColumn],
      {fmt::format("-DIN={}", name_of(type)), fmt::format("-DOUT={}", name_of(type)),
       fmt::format("-DNUM={}", type == DataType::kDouble ? "double" : "float")}};
  if (device.gpu.fp64) spec.options.emplace_back("-DFP64");
  return spec;
}

SharedKernels& shared = *new SharedKernels;

const Kernel& kernel(Stream& stream, DataType type, std::size_t number) {
  return shared.get(stream, static_cast<std::uint64_t>(type) * kKernels + number,
                    [&] { return spec_of(stream.info(), type, number); });
}

/// Formula of both programs.
struct Formula {
  int unused = 0;
};

void compute_weight(Stream& stream, const Backward& p, void* workspace, std::size_t workspace_bytes) {
  const TensorDesc &x = p.x.desc, &dy = p.dy.desc;
  const TensorDesc* const tensors[] = {&x, &dy};
  const bool per_channel = is_per_channel(p);
  const Loop all = make_loop(tensors);
  Loop column;
  column.operands = all.operands;
  for (std::size_t d = 0; d < all.rank; ++d)
    if (!per_channel || d != 1) column.push(all.dims[d]);
  column.simplify();
  const std::size_t size = size_of(x.type);
  gpu_skeletons::Columns columns{gpu_skeletons::nest_of(column, 2, {0, 1, 2}),
                                 {{{p.x.data, size}, {p.dy.data, size}, {p.dweight.data, size}}},
                                 {}};
  columns.shape.columns = p.weight.desc.count();
  for (std::size_t o = 0; o < 3; ++o) columns.shape.vector[o] = 1;
  if (per_channel) {
    columns.shape.stride[0] = x.strides[1];
    columns.shape.stride[1] = dy.strides[1];
    columns.shape.stride[2] = p.dweight.desc.strides[0];
  }
  const auto plan = plan_column_partials(stream.info(), columns);
  const std::size_t number_bytes = x.type == DataType::kDouble ? sizeof(double) : sizeof(float);
  const std::size_t needed = plan.workspace(number_bytes);
  require(workspace && workspace_bytes >= needed,
          "the workspace has {} bytes, but {} are needed: see miopenGetPReLUBackwardWorkspaceSize",
          workspace ? workspace_bytes : 0, needed);
  require(reinterpret_cast<std::uintptr_t>(workspace) % number_bytes == 0,
          "the workspace starts at {}: it must be a multiple of {} bytes", workspace, number_bytes);
  stream.check_memory(workspace, "the workspace");
  const auto kernel_of = [&](ColumnEntry entry) -> const Kernel& {
    return kernel(stream, x.type, kMaps + static_cast<std::size_t>(entry) - kFirstColumn);
  };
  const Formula formula;
  launch_column_partials(stream, kernel_of(plan.entry), kernel_of(ColumnEntry::kFinish), plan, columns.sides,
                         gpu_skeletons::value_argument(formula), Buffer(workspace));
}

}  // namespace

std::vector<KernelSpec> programs(const DeviceInfo& device, DataType type) {
  std::vector<KernelSpec> specs;
  for (std::size_t i = 0; i < kKernels; ++i) specs.push_back(spec_of(device, type, i));
  return specs;
}

void run_on_gpu(Stream& stream, const Backward& p, void* workspace, std::size_t workspace_bytes) {
  const DataType type = p.x.desc.type;
  if (type == DataType::kDouble && !stream.info().gpu.fp64)
    fail(Status::kNotImplemented, "{} has no double-precision arithmetic", stream.info().name);
  stream.check_memory(p.x.data, "the buffer of the input");
  stream.check_memory(p.weight.data, "the buffer of the weight");
  stream.check_memory(p.dy.data, "the buffer of doutput");
  if (p.dx.data) stream.check_memory(p.dx.data, "the buffer of dinput");
  if (p.dweight.data) stream.check_memory(p.dweight.data, "the buffer of dweight");
  if (p.dweight.data) compute_weight(stream, p, workspace, workspace_bytes);
  if (!p.dx.data) return;
  const std::size_t size = size_of(type);
  const kernels::Sides sides = {{{p.x.data, size}, {p.weight.data, size}, {p.dy.data, size}, {p.dx.data, size}}};
  const auto plan = gpu_skeletons::plan_map(gpu_skeletons::nest_of(input_loop(p), 3, {1, 2, 3, 0}), sides);
  const Formula formula;
  launch_map(stream, kernel(stream, type, static_cast<std::size_t>(plan.entry)), plan, sides,
             gpu_skeletons::value_argument(formula));
}

}  // namespace polymio::prelu
