// A problem as kernels are told of it.
// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "kernels/gpu/conv_args.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution::gpu {

kernels::ConvSizes sizes_of(const Problem&);
kernels::ConvSteps steps_of(const Problem&);
kernels::ConvStrides strides_of(const Problem&);

/// What portable kernels can compute at all: these types, this device, no epilogue.
Verdict check_types(const DeviceInfo&, const Problem&);

/// -DIN, -DOUT and the feature options.
std::vector<std::string> type_options(const DeviceInfo&, const Problem&);

/// Addresses of the two inputs and the output.
struct Operands {
  Buffer first, second, output;
};
Operands operands_of(const Problem&, const Problem::Args&);

/// Traits that all portable solvers share.
SolverInfo portable_info(std::uint64_t id, const char* name, Algorithm);

}  // namespace polymio::convolution::gpu
