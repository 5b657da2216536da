// Driver of reductions (kernels/cpu/isa/skeletons/reduction.h) on the CPU. The order of every sum depends on the sizes
// and strides only, not on threads.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/skeletons.h"
#include "primitives/common/runs.h"

namespace polymio::common {

/// For each element of `kept`, the elements of `reduced` at its offsets are one row. The loops have the same operands
/// and `reduced` is simplified; base offsets belong to `kept`.
struct RowLoops {
  Loop kept, reduced;
};

/// Splits the loop of make_loop: the dimensions of operand 0 that `reduced(dim)` names are reduced, the others are
/// kept, in their order.
RowLoops row_loops(const Loop& all, FunctionRef<bool(std::size_t dim)> reduced);

/// What the kernel found in one row; the callee may change the values that apply is to use. Not concurrent for one row.
template <class A>
using RowResult = FunctionRef<void(std::int64_t row, A* values)>;

/// The same for `n` <= kBlock consecutive rows at once: values[accumulator * pitch + row - first].
template <class A>
using RowsResult = FunctionRef<void(std::int64_t first, std::int64_t n, A* values, std::int64_t pitch)>;

/// Reduces every row, by rows or columns of memory, whichever is contiguous, then passes its values on, rows in order.
/// A: double or a 128-bit integer. The kernel has no apply.
template <class A>
void reduce(Stream&, const RowLoops&, const Operands& inputs, const kernels::Reduction<A>&, const void* job,
            RowResult<A> result);

/// Reduces every row, passes its values on and applies the kernel to the row, while a short row is in the caches. Tasks
/// pass values of different rows on concurrently. Operands: outputs first, then inputs. Without apply in the kernel the
/// values are only passed on.
void reduce_and_apply(Stream&, const RowLoops&, const Operands&, const kernels::Reduction<>&, const void* job,
                      RowResult<double> result);
/// The same where the values of neighbouring rows are passed on together.
void reduce_and_apply_many(Stream&, const RowLoops&, const Operands&, const kernels::Reduction<>&, const void* job,
                           RowsResult<double> result);

inline constexpr int kReductionTask = 1 << 15;  // about 10 us, and within the L2 cache

/// Reduces every row of many, whose results are cheap to use: those of neighbouring rows are passed on together,
/// concurrently. The kernel has no apply. Longer rows are cut into chunks of `task` elements.
void reduce_many(Stream&, const RowLoops&, const Operands& inputs, const kernels::Reduction<>&, const void* job,
                 RowsResult<double> result, std::int64_t task = kReductionTask);

}  // namespace polymio::common
