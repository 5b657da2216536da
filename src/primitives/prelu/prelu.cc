// SPDX-License-Identifier: MIT
#include "primitives/prelu/prelu.h"

#include "base/error.h"
#include "core/aligned_buffer.h"
#include "core/problem_text.h"
#include "core/tensor_checks.h"
#include "kernels/cpu/kernels_of.h"
#include "kernels/cpu/prelu.h"
#include "primitives/common/gpu/skeletons.h"
#include "primitives/common/map.h"
#include "primitives/common/reduce.h"
#include "primitives/prelu/passes.h"

namespace polymio::prelu {
namespace {

constexpr std::size_t kChannel = 1;

void check_weight(const TensorDesc& x, const TensorDesc& weight, const char* name) {
  require_same_type(weight, name, x, "the input");
  const std::int64_t channels = x.rank > 1 ? x.lens[kChannel] : 1;
  require(weight.rank == 1 && (weight.lens[0] == 1 || weight.lens[0] == channels),
          "{} has sizes {}: it must have one dimension, of size 1 or {}, as many as the input {} has channels", name,
          sizes_text(weight), channels, sizes_text(x));
}

void check_inputs(const TensorDesc& x, const TensorDesc& weight) {
  require_float_tensor(x, "the input", kMaxRank, "PReLU gradients");
  check_weight(x, weight, "the weight");
}

void check(const Backward& p) {
  const TensorDesc& x = p.x.desc;
  check_inputs(x, p.weight.desc);
  require_same_type(p.dy.desc, "doutput", x, "the input");
  require_same_sizes(p.dy.desc, "doutput", x, "the input");
  if (p.dx.data) {
    require_same_type(p.dx.desc, "dinput", x, "the input");
    require_same_sizes(p.dx.desc, "dinput", x, "the input");
    require_separate(p.dx.desc, "dinput");
    require_no_overlap(x, p.x.data, "the input", p.dx.desc, p.dx.data);
    require_no_overlap(p.dy.desc, p.dy.data, "doutput", p.dx.desc, p.dx.data);
    require_apart(p.weight.desc, p.weight.data, "the weight", p.dx.desc, p.dx.data, "dinput");
  }
  if (p.dweight.data) {
    const TensorDesc& dweight = p.dweight.desc;
    check_weight(x, dweight, "dweight");
    require_same_sizes(dweight, "dweight", p.weight.desc, "the weight");
    require_separate(dweight, "dweight");
    for (const auto& [other, name] : {std::pair{&p.x, "the input"}, {&p.weight, "the weight"}, {&p.dy, "doutput"}})
      require_apart(other->desc, other->data, name, dweight, p.dweight.data, "dweight");
    require_apart(p.dx.desc, p.dx.data, "dinput", dweight, p.dweight.data, "dweight");
  }
}

void compute_weight(Stream& stream, const Backward& p, const kernels::Reduction<>& kernel) {
  const TensorDesc* const tensors[] = {&p.x.desc, &p.dy.desc};
  const bool per_channel = is_per_channel(p);
  const common::RowLoops loops =
      common::row_loops(make_loop(tensors), [&](std::size_t d) { return !per_channel || d != kChannel; });
  const DataType type = p.x.desc.type;
  common::Operands operands;
  operands.outputs = 0;
  operands.push(p.x.data, size_of(type));
  operands.push(p.dy.data, size_of(type));
  common::reduce<double>(stream, loops, operands, kernel, nullptr, [&](std::int64_t channel, const double* sum) {
    dtype::store(type, p.dweight.data, channel * p.dweight.desc.strides[0], *sum);
  });
}

}  // namespace

Loop input_loop(const Backward& p) {
  TensorDesc weight = p.x.desc;
  weight.lens.fill(1);
  if (is_per_channel(p)) {
    weight.lens[kChannel] = p.weight.desc.lens[0];
    weight.strides[kChannel] = p.weight.desc.strides[0];
  }
  const TensorDesc* const tensors[] = {&p.dx.desc, &p.x.desc, &weight, &p.dy.desc};
  return simplified_loop(tensors);
}

void run_on_cpu(Stream& stream, const Backward& p) {
  const auto& table = kernels::kernels_of<kernels::PreluKernels>(stream.info().isa);
  const DataType type = p.x.desc.type;
  if (p.dweight.data) compute_weight(stream, p, table.weight(type));
  if (!p.dx.data) return;
  common::Operands operands;
  for (const void* data : {static_cast<const void*>(p.dx.data), p.x.data, p.weight.data, p.dy.data})
    operands.push(data, size_of(type));
  common::map(stream, Tiles(input_loop(p)), operands, [&](const kernels::Run& run) { table.input(type, run); });
}

void backward(Stream& stream, const Backward& given, void* workspace, std::size_t workspace_bytes) {
  check(given);
  const CallerBuffer buffers[] = {{given.x.desc, given.x.data, "the input"},
                                  {given.weight.desc, given.weight.data, "the weight"},
                                  {given.dy.desc, given.dy.data, "doutput"},
                                  {given.dx.desc, given.dx.data, "dinput", true},
                                  {given.dweight.desc, given.dweight.data, "dweight", true}};
  const auto run = [&](const Backward& p) {
    stream.info().kind == DeviceKind::kCpu ? run_on_cpu(stream, p) : run_on_gpu(stream, p, workspace, workspace_bytes);
  };
  if (are_aligned(buffers)) return run(given);
  run_on_aligned(stream.info(), buffers, [&](void* const* data) {
    Backward p = given;
    p.x.data = data[0];
    p.weight.data = data[1];
    p.dy.data = data[2];
    p.dx.data = data[3];
    p.dweight.data = data[4];
    run(p);
  });
}

std::size_t workspace_size(const DeviceInfo& device, const TensorDesc& x, const TensorDesc& weight) {
  check_inputs(x, weight);
  if (device.kind == DeviceKind::kCpu) return 0;
  const std::int64_t columns = weight.count();
  return gpu_skeletons::max_column_workspace(device, columns, x.count() / columns,
                                             x.type == DataType::kDouble ? sizeof(double) : sizeof(float));
}

}  // namespace polymio::prelu
