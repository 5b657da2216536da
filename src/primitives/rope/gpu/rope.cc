// Rotary position embeddings on GPUs. A program serves every shape, so there are no plans: kernels are cached by type.
// SPDX-License-Identifier: MIT
#include "primitives/rope/gpu/rope.h"

#include <fmt/format.h>

#include "base/error.h"
#include "core/kernel_builder.h"
#include "primitives/common/gpu/skeletons.h"

namespace polymio::rope {
namespace {

constexpr int kPair = 2;  // GROUP of rope.cl

KernelSpec spec_of(const DeviceInfo& device, DataType type, bool backward, std::size_t entry) {
  KernelSpec spec{"primitives/rope/gpu/rope.cl",
                  gpu_skeletons::kMapEntries[entry],
                  {fmt::format("-DIN={}", name_of(type)), fmt::format("-DOUT={}", name_of(type)),
                   fmt::format("-DNUM={}", type == DataType::kDouble ? "double" : "float"),
                   fmt::format("-DBACKWARD={}", backward ? 1 : 0)}};
  if (device.gpu.fp64) spec.options.emplace_back("-DFP64");
  return spec;
}

SharedKernels& shared = *new SharedKernels;

struct Formula {
  int unused = 0;
};

}  // namespace

std::vector<KernelSpec> programs(const DeviceInfo& device, DataType type) {
  std::vector<KernelSpec> specs;
  for (const bool backward : {false, true})
    for (std::size_t e = 0; e < gpu_skeletons::kMapEntries.size(); ++e)
      specs.push_back(spec_of(device, type, backward, e));
  return specs;
}

void run_on_gpu(Stream& stream, const Tensors& p, const Loop& loop, bool backward) {
  const DataType type = p.x.desc.type;
  if (type == DataType::kDouble && !stream.info().gpu.fp64)
    fail(Status::kNotImplemented, "{} has no double-precision arithmetic", stream.info().name);
  stream.check_memory(p.x.data, "the first input");
  stream.check_memory(p.cos.data, "cos");
  stream.check_memory(p.sin.data, "sin");
  stream.check_memory(p.y, "the output");
  const std::size_t size = size_of(type);
  const kernels::Sides sides = {{{p.x.data, size}, {p.cos.data, size}, {p.sin.data, size}, {p.y, size}}};
  const auto plan = gpu_skeletons::plan_map(gpu_skeletons::nest_of(loop, 3, {1, 2, 3, 0}), sides, kPair);
  const auto entry = static_cast<std::size_t>(plan.entry);
  const std::uint64_t number = static_cast<std::uint64_t>(type) * 8 + (backward ? 4 : 0) + entry;
  const Kernel& kernel = shared.get(stream, number, [&] { return spec_of(stream.info(), type, backward, entry); });
  const Formula formula;
  launch_map(stream, kernel, plan, sides, gpu_skeletons::value_argument(formula));
}

}  // namespace polymio::rope
