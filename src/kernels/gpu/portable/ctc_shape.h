// Arguments of the CTC loss. Shared with the host.
// SPDX-License-Identifier: MIT
#pragma once
#ifndef KERNEL
#include <cstdint>
namespace polymio::kernels {
using i64 = std::int64_t;
#endif

/// Strides in elements.
typedef struct CtcShape {
  i64 x_step, x_sequence, x_class, gradient_step, gradient_sequence, gradient_class;
  int steps, batch, classes, blank, softmax;
  int states;  // elements of a row
} CtcShape;

/// Integers of a sequence, at its start in the workspace. Positions of the list that follows: `labels`; `order`, its
/// labels without blanks, sorted by class; `starts`, where each class begins in that order and the last one ends.
typedef struct CtcSequence {
  int labels, count, steps, order, starts, classes;
} CtcSequence;

/// Where the parts of the workspace begin, in units of 4 bytes: sequences and lists are at 0. Floats: logarithms of the
/// sums of each step; fractional parts of the rows of states [sequence, direction, step] and of the results. Integers:
/// whole parts of the rows and of the results.
typedef struct CtcParts {
  i64 list, log_sums, rows, fractions, wholes, totals;
} CtcParts;

/// Integers that a launch stores.
#define CTC_VALUES 28
typedef struct CtcValues {
  int value[CTC_VALUES];
} CtcValues;

#ifndef KERNEL
}  // namespace polymio::kernels
#endif
