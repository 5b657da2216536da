// A problem as kernels are told of it.
// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "kernels/gpu/conv_args.h"
#include "kernels/gpu/conv_shapes.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution::gpu {

kernels::ConvSizes sizes_of(const Problem&);
kernels::ConvSteps steps_of(const Problem&);
kernels::ConvStrides strides_of(const Problem&);

/// A depthwise problem in two dimensions. Backward data with stride 1 is a forward convolution with the filter turned
/// round, and has the pads of that.
kernels::DepthwiseShape depthwise_shape(const Problem&);

/// What portable kernels can compute at all: these types, this device, no epilogue.
Verdict check_types(const DeviceInfo&, const Problem&);

/// The same for the fast kernels: one of the floats of 16 and 32 bits, and check_sizes.
Verdict check_planes(const DeviceInfo&, const Problem&, Direction);

/// Two spatial dimensions at most, and sizes that kernels count in 32 bits.
Verdict check_sizes(const Problem&);

kernels::Divider divider(std::int64_t divisor);

/// Blocks along three dimensions, threads along one.
Launch launch_shape(std::int64_t threads, std::int64_t x, std::int64_t y = 1, std::int64_t z = 1);

/// Whether all three tensors begin at multiples of 16 bytes.
bool aligned(const Problem::Args&);

/// Whether 16-bit floats can be multiplied and copied as kernels/gpu/matrix_units.h and local_copy.h do it best.
bool has_matrix_units(const DeviceInfo&);

/// Bytes of the three tensors.
double tensor_bytes(const Problem&);

/// -DIN, -DOUT and the feature options.
std::vector<std::string> type_options(const DeviceInfo&, const Problem&);

/// The program `name`, and for weights add_partials of the same source; then both for tensors that are not aligned.
std::vector<KernelSpec> kernel_variants(const std::string& source, const std::string& name,
                                        std::vector<std::string> options, bool weights, bool unaligned = true);

/// Partial results in single precision, `sums_at` elements behind the beginning of their buffer.
struct Partials {
  Buffer sums, result;
  std::int64_t count;
  int parts;
  std::int64_t sums_at = 0, result_at = 0;
};
/// result = alpha * their sum + beta * result, by add_partials (kernels/gpu/partials.h).
void add_partials(Stream&, const Kernel&, const Partials&, float alpha, float beta);

/// Addresses of the two inputs and the output.
struct Operands {
  Buffer first, second, output;
};
Operands operands_of(const Problem&, const Problem::Args&);

}  // namespace polymio::convolution::gpu
