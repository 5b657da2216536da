// SPDX-License-Identifier: MIT
#pragma once
#include "core/loop.h"
#include "primitives/rope/rope.h"

namespace polymio::rope {

/// On tensors that have been checked, over a loop of y, x, cos and sin whose innermost dimension consists of pairs.
void run_on_gpu(Stream&, const Tensors&, const Loop&, bool backward);

}  // namespace polymio::rope
