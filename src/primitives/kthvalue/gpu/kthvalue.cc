// Selection on GPUs, a block per row.
// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "base/error.h"
#include "core/kernel_builder.h"
#include "primitives/common/gpu/skeletons.h"
#include "primitives/kthvalue/kthvalue.h"

namespace polymio::kthvalue {
namespace {

constexpr std::int64_t kThreads = 256;  // as in kthvalue.cl

struct Formula {
  std::int64_t step;
  int length, k;
};

KernelSpec spec_of(const DeviceInfo& device, DataType type) {
  KernelSpec spec{"primitives/kthvalue/gpu/kthvalue.cl", "kthvalue", {}};
  spec.options = {fmt::format("-DIN={}", name_of(type)), fmt::format("-DOUT={}", name_of(type)), "-DNUM=float"};
  if (device.gpu.fp64) spec.options.emplace_back("-DFP64");
  return spec;
}

SharedKernels& shared = *new SharedKernels;

}  // namespace

void run_gpu(Stream& stream, const Problem& p, const Loop& rows, const Args& args) {
  const std::int64_t length = p.length();
  if (length > kernels::kMaxPartUnits)
    fail(Status::kNotImplemented, "dimension {} has {} elements, at most {} are supported on GPUs", p.dim, length,
         kernels::kMaxPartUnits);
  stream.check_memory(args.x, "the buffer of the input");
  stream.check_memory(args.y, "the buffer of the output");
  stream.check_memory(args.indices, "the buffer of indices");
  const Kernel& kernel =
      shared.get(stream, static_cast<std::uint64_t>(p.x.type), [&] { return spec_of(stream.info(), p.x.type); });
  const Formula formula{p.x.strides[static_cast<std::size_t>(p.dim)], static_cast<int>(length), static_cast<int>(p.k)};
  kernels::Nest nest = gpu_skeletons::nest_of(rows, 1, {0, 1, 2});
  nest.group(1);
  each_part(nest, [&](const kernels::Nest& part) {
    launch(stream, kernel, launch_shape(kThreads, part.count()), part.walk(), Buffer(args.x), part.strides(0),
           Buffer(args.y), part.strides(1), Buffer(args.indices), part.strides(2), formula);
  });
}

std::vector<KernelSpec> programs(const DeviceInfo& device, DataType type) {
  if (device.kind == DeviceKind::kCpu) return {};
  return {spec_of(device, type)};
}

}  // namespace polymio::kthvalue
