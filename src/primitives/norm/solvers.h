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

/// Of a row, from what kernels::NormKernels::forward found in it.
struct Statistics {
  double mean, rstd;
};
Statistics statistics_of(const Problem&, const double* values, double length, double epsilon);

/// Whether the tensors together exceed the last-level cache of a CPU.
bool exceeds_caches(const DeviceInfo&, const Problem&);
/// Microseconds on a CPU, where `passes` more tensors are read than the problem has.
double traffic_us(const DeviceInfo&, const Problem&, int passes, bool non_temporal);

}  // namespace polymio::norm
