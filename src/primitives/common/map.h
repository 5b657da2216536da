// Driver of map kernels (kernels/cpu/isa/skeletons/map.h) on the CPU: outputs = f(inputs) over operands of any strides,
// with broadcast, on all threads.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/skeletons.h"
#include "primitives/common/runs.h"

namespace polymio::common {

/// Elements per task that suit cheap functions: about 10 us, well above the overhead of a task.
inline constexpr std::int64_t kTaskElements = std::int64_t{1} << 15;

/// Calls body(begin, end) for parts of the loop on all threads; on one thread if elements of operand 0 may share
/// memory.
void split(Stream&, const Loop&, std::int64_t task_elements, FunctionRef<void(std::int64_t, std::int64_t)> body);

/// gather() of all elements of the loop on all threads.
void gather_all(Stream&, const Loop&, std::size_t operand, std::size_t size, const void* data, void* dense);

/// Calls the kernel for all elements. The loop of the tiles has the operands: outputs first, then inputs. An output may
/// be an input at the same strides; without `reads_outputs` the kernel must not read outputs.
void map(Stream&, const Tiles&, const Operands&, FunctionRef<void(const kernels::Run&)> kernel,
         std::int64_t task_elements = kTaskElements, RunShape = RunShape::kRows);

}  // namespace polymio::common
