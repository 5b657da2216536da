// A problem's shape for the kernels, and what the CPU solvers refuse.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/conv_shape.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution {

/// The most bytes of scratch per thread that a solver may use.
inline constexpr std::int64_t kMaxScratch = 2 << 20;

/// Missing spatial dimensions become leading dimensions of size 1.
kernels::ConvShape conv_shape(const Problem&);

kernels::ConvDirection kernel_direction(Direction);

/// Refuses what no floating-point kernel of the CPU supports: other directions, casts, mixed types, and epilogues
/// unless the solver `fuses` them.
Verdict check_float_problem(const Problem&, Direction, bool fuses = false);
/// Refuses int8 problems other than forward without casts and epilogue, and sums of more than `most_products` products.
Verdict check_int8_problem(const Problem& p, std::int64_t most_products);

/// One tap, strides 1, no padding: x is the column matrix.
bool is_pointwise(const Problem&);

/// Bytes of the three tensors together.
double tensor_bytes(const Problem&);

}  // namespace polymio::convolution
