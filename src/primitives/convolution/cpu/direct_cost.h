// What direct convolutions cost, in all directions.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/direct_backward_weights.h"
#include "primitives/convolution/cpu/cost.h"

namespace polymio::convolution {

/// Cycles of one step of a register tile whose weights come from the second-level cache; where it is made of tile
/// registers, so do these bytes of each row. Of `depth` steps.
double tile_cycles(const kernels::DirectUnit&, double rows, double vectors, std::int64_t depth, double row_bytes = 0);
/// What a step of forward or backward data takes from the second-level cache for each row, if a line has so many
/// outputs.
double row_bytes(const kernels::Direct&, std::int64_t line);
/// All pieces of forward or backward data.
Work direct_work(const kernels::Direct&, const Machine&);
/// All pieces of backward weights.
Work gradient_work(const kernels::DirectGradient&, const Machine&);

/// Plans and estimates count tiles of a line, panels of channels, taps and phases one by one.
Verdict check_countable(const Problem&);

}  // namespace polymio::convolution
