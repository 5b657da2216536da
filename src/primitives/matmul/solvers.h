// What the solvers share: the product with as few batch dimensions as possible.
// SPDX-License-Identifier: MIT
#pragma once
#include "core/loop.h"
#include "primitives/matmul/matmul.h"

namespace polymio::matmul {

/// Batch dimensions are merged where strides allow it, and become rows or columns where one operand is the same for
/// all: x [4, 5, 6] times w [6, 7] has 20 rows and no batch. Strides in elements; those of sizes of 1 are 0.
struct Shape {
  enum Operand : std::size_t { kC, kA, kB };

  std::int64_t m, n, k;
  std::int64_t a_row, a_depth, b_depth, b_column, c_row, c_column;
  Loop batch;  // over the operands c, a, b; at least one dimension
};
Shape shape_of(const Problem&);

/// For the table of solvers. There are no directions: a transpose is a pair of strides.
enum class Direction : int { kForward = 0 };

/// Works for every problem that fits 32-bit sizes.
std::unique_ptr<const SolverBase> gpu_tiles(const SolverInfo&, Direction);

/// Bytes of the three tensors' elements.
double tensor_bytes(const Problem&);

/// Whether sums are in fp64.
inline bool is_wide(const Problem& p) { return p.a.type == DataType::kDouble; }

}  // namespace polymio::matmul
