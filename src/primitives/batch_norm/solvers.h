// What the files of this folder share.
// SPDX-License-Identifier: MIT
#pragma once
#include "primitives/batch_norm/batch_norm.h"
#include "primitives/common/reduce.h"

namespace polymio::batch_norm {

/// Operands of the loops: out, x, dy (x where there is none), the parameters. A row has the elements that share a mean;
/// rows are in the order of memory of out.
enum : std::size_t { kOut = 0, kX = 1, kDy = 2, kParameter = 3 };
common::RowLoops loops_of(const Problem&);

/// The activation as a range: it restricts its argument to [low, high].
struct Range {
  double low, high;
};
Range range_of(activation::Mode, const activation::Parameters&);

}  // namespace polymio::batch_norm
