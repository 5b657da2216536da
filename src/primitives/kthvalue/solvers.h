// What the solvers share.
// SPDX-License-Identifier: MIT
#pragma once
#include "core/loop.h"
#include "primitives/kthvalue/kthvalue.h"

namespace polymio::kthvalue {

enum class Direction : int { kForward = 0 };

/// The loop over the rows: operands x, y, indices.
Loop rows_of(const Problem&);

}  // namespace polymio::kthvalue
