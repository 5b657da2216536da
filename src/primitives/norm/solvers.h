// The shape of a problem as its solvers see it.
// SPDX-License-Identifier: MIT
#pragma once
#include "core/loop.h"
#include "primitives/common/reduce.h"
#include "primitives/norm/norm.h"

namespace polymio::norm {

/// The first dimension of a row in split(x).
int first_of_row(const Problem&);

/// The tensor with the channels of a group norm as two dimensions, groups and channels of a group.
TensorDesc split(const Problem&, const TensorDesc&);
/// A dense tensor of one element per element of a row (per channel), and of one per row, in the rank of split(x).
TensorDesc parameter_desc(const Problem&);
TensorDesc statistic_desc(const Problem&);

/// Rows of these tensors, which have the sizes of split(x) or are broadcast.
common::RowLoops rows_of(const Problem&, std::span<const TensorDesc* const> operands);

/// What the gradient's apply takes of n rows, from the sums that it found in them: values[k * pitch + row].
void mean_gradients(const Problem&, std::int64_t n, double* values, std::int64_t pitch);

/// Microseconds on a CPU, where `passes` more tensors are read than the problem has.
double traffic_us(const DeviceInfo&, const Problem&, int passes, bool non_temporal);

}  // namespace polymio::norm
