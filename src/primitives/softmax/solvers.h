// What the solvers share.
// SPDX-License-Identifier: MIT
#pragma once
#include "primitives/common/reduce.h"
#include "primitives/softmax/softmax.h"

namespace polymio::softmax {

/// The rows of y and x; or of dx, y and dy; rows in the order of memory.
common::RowLoops row_loops_of(const Problem&);

}  // namespace polymio::softmax
