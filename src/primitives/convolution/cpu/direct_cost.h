// Cost model of direct convolutions, all directions.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/direct_backward_weights.h"
#include "primitives/convolution/cpu/cost.h"

namespace polymio::convolution {

/// Cycles of one of `depth` steps of a register tile. Weights come from the second-level cache; with AMX so do
/// `row_bytes` bytes per row of the tile.
double tile_cycles(const kernels::DirectUnit&, double rows, double vectors, std::int64_t depth, double row_bytes = 0);
/// Bytes per row that a step of forward or backward data loads from the second-level cache; `line`: outputs per line.
double row_bytes(const kernels::Direct&, std::int64_t line);
/// The cost of all pieces of forward or backward data.
Work direct_work(const kernels::Direct&, const Machine&);
/// The cost of all pieces of backward weights.
Work gradient_work(const kernels::DirectGradient&, const Machine&);

/// Refuses problems with so many channels, taps, strides or positions that planning would take long: plans and
/// estimates loop over tiles, panels, taps and phases.
Verdict check_countable(const Problem&);

}  // namespace polymio::convolution
