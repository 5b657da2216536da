// Random contents for tensors that are only measured or judged on.
// SPDX-License-Identifier: MIT
#pragma once
#include "core/tensor.h"
#include "runtime/device.h"

namespace polymio {

/// Elements in [-1, 1), or integers in [-16, 16): cheap to make, since a row of them is repeated, of a length
/// that no size has as a factor.
void fill_random(Stream&, const TensorDesc&, void* data, std::uint64_t seed);

}  // namespace polymio
