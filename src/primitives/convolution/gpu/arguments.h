// Kernel arguments, launch shapes and checks that the solvers for GPUs share.
// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "kernels/gpu/portable/conv_args.h"
#include "kernels/gpu/portable/conv_shapes.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution::gpu {

kernels::ConvSizes sizes_of(const Problem&);
kernels::ConvSteps steps_of(const Problem&);
kernels::ConvStrides strides_of(const Problem&);

/// A depthwise problem with two spatial dimensions. Backward data with stride 1 is described as a forward convolution
/// with the flipped filter, hence with its padding.
kernels::DepthwiseShape depthwise_shape(const Problem&);

/// What portable kernels support: element types, device, no epilogue.
Verdict check_types(const DeviceInfo&, const Problem&);

/// The same for the specialised kernels: all tensors fp32, fp16 or bf16, and check_sizes.
Verdict check_planes(const DeviceInfo&, const Problem&, Direction);

/// At most two spatial dimensions, and sizes that fit the 32-bit indices of kernels.
Verdict check_sizes(const Problem&);

kernels::Divider divider(std::int64_t divisor);

/// Blocks along three dimensions, threads along one.
Launch launch_shape(std::int64_t threads, std::int64_t x, std::int64_t y = 1, std::int64_t z = 1);

/// Whether all three tensors begin at multiples of 16 bytes.
bool aligned(const Problem::Args&);

/// Bytes of the three tensors.
double tensor_bytes(const Problem&);

/// -DIN, -DOUT and the feature options.
std::vector<std::string> type_options(const DeviceInfo&, const Problem&);

/// The kernel `name` and, for weights, add_partials of the same source; then, if `unaligned`, both with -DUNALIGNED.
std::vector<KernelSpec> kernel_variants(const std::string& source, const std::string& name,
                                        std::vector<std::string> options, bool weights, bool unaligned = true);

/// `parts` partial results of `count` fp32 elements, from element `sums_at` of `sums` on; result from `result_at` on.
struct Partials {
  Buffer sums, result;
  std::int64_t count;
  int parts;
  std::int64_t sums_at = 0, result_at = 0;
};
/// result = alpha * their sum + beta * result, by add_partials (kernels/gpu/portable/partials.h).
void add_partials(Stream&, const Kernel&, const Partials&, float alpha, float beta);

/// The two inputs and the output, in the order that kernels take them.
struct Operands {
  Buffer first, second, output;
};
Operands operands_of(const Problem&, const Problem::Args&);

}  // namespace polymio::convolution::gpu
