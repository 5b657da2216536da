// What direct convolutions cost, in all directions.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/gradient.h"
#include "primitives/convolution/cpu/cost.h"

namespace polymio::convolution {

/// Cycles of one step of a register tile whose weights come from the second-level cache; of `depth` steps.
double tile_cycles(const kernels::DirectUnit&, double rows, double vectors, std::int64_t depth);
/// All pieces of forward or backward data.
Work direct_work(const kernels::Direct&, const Machine&);
/// All pieces of backward weights.
Work gradient_work(const kernels::DirectGradient&, const Machine&);

}  // namespace polymio::convolution
