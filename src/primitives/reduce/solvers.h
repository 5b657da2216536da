// What the solvers share.
// SPDX-License-Identifier: MIT
#pragma once
#include "core/loop.h"
#include "primitives/reduce/reduce.h"

namespace polymio::reduce {

enum class Direction : int { kForward = 0 };

/// The elements of the rows: operands a, c, positions. The dimensions of a row are sorted by the strides of a unless
/// positions count them.
struct Loops {
  explicit Loops(const Problem&);
  Loop kept, reduced;
};

}  // namespace polymio::reduce
