// What each kind of device implements, and what both need.
// SPDX-License-Identifier: MIT
#pragma once
#include "core/loop.h"
#include "primitives/reduce/reduce.h"

namespace polymio::reduce {

/// The elements of the rows: operands a, c, positions. The dimensions of a row are sorted by the strides of a unless
/// positions count them.
struct Loops {
  explicit Loops(const Problem&);
  Loop kept, reduced;
};

void run_cpu(Stream&, const Problem&, const Args&);
void run_gpu(Stream&, const Problem&, const Args&);
std::size_t gpu_workspace(const DeviceInfo&, const Problem&);

}  // namespace polymio::reduce
