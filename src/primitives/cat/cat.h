// Concatenation: the interface of this folder. A bit copy of each input to its part of the output; on GPUs one launch
// copies several inputs.
// SPDX-License-Identifier: MIT
#pragma once
#include <span>
#include <vector>

#include "core/kernel_builder.h"
#include "core/tensor.h"
#include "runtime/device.h"

namespace polymio::cat {

/// An input; one of no elements has a null `desc`.
struct Input {
  const TensorDesc* desc;
  const void* data;
};

/// y = the inputs, in order, along dimension `dim`; -1 is the last one. An input may be its own part of y. Throws
/// BadParm for types or sizes that do not fit together; nothing is written then.
void forward(Stream& stream, std::span<const Input> inputs, const TensorDesc& y, void* y_data, std::int64_t dim);

/// The GPU kernels.
std::vector<KernelSpec> programs();

}  // namespace polymio::cat
