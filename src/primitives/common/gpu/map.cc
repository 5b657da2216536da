// SPDX-License-Identifier: MIT
#include "base/math.h"
#include "primitives/common/gpu/arguments.h"
#include "primitives/common/gpu/skeletons.h"

namespace polymio::gpu_skeletons {
namespace {

using kernels::Nest;
using kernels::Sides;

constexpr std::int64_t kThreads = 128, kElementsPerThread = 4;  // as in map.h

/// Whether operands divide into vectors that are aligned, in the outputs and at least one input if any is contiguous.
/// Kernels read other inputs by elements.
bool has_aligned_vectors(const Nest& nest, const Sides& sides, int vector) {
  if (!has_units(nest, sides, vector)) return false;
  bool is_aligned_input = false, is_other_input = false;
  for (int operand = 0; operand < nest.operands; ++operand) {
    const auto o = static_cast<std::size_t>(operand);
    if (!sides[o].data || nest.inner().strides[o] == 0) continue;
    const bool aligned = is_aligned(nest, operand, sides[o], nest.rank - 1, vector);
    if (operand >= nest.inputs && !aligned) return false;
    (aligned ? is_aligned_input : is_other_input) |= operand < nest.inputs;
  }
  return is_aligned_input || !is_other_input;
}

/// Whether outputs are contiguous, and inputs contiguous or constant along each row, as map_rows requires.
bool has_flat_rows(const Nest& nest, const Sides& sides, int vector) {
  if (nest.inner().size < vector || nest.count() > kernels::kMaxPartUnits) return false;
  for (int operand = 0; operand < nest.operands; ++operand) {
    const auto o = static_cast<std::size_t>(operand);
    const bool constant = operand < nest.inputs && nest.inner().strides[o] == 0;
    if (sides[o].data && !constant && !is_flat(nest, operand, sides[o])) return false;
  }
  return true;
}

/// The kernels' VECTOR. Inputs have one element size, and so have outputs.
int vector_length(const Nest& nest, const Sides& sides) {
  const std::size_t out = sides[static_cast<std::size_t>(nest.operands) - 1].size;
  return kernels::vector_of(nest.inputs > 0 ? sides[0].size : out, out);
}

}  // namespace

Nest nest_of(const Loop& loop, int inputs, std::span<const std::size_t> operands) {
  Nest nest;
  nest.rank = static_cast<int>(loop.rank);
  nest.inputs = inputs;
  for (const std::size_t operand : operands) {
    const auto o = static_cast<std::size_t>(nest.operands++);
    nest.first[o] = loop.base[operand];
    for (std::size_t d = 0; d < loop.rank; ++d) nest.dims[d].strides[o] = loop.dims[d].strides[operand];
  }
  for (std::size_t d = 0; d < loop.rank; ++d) nest.dims[d].size = loop.dims[d].size;
  return nest;
}

Nest nest_of(const Loop& loop, int inputs, std::initializer_list<std::size_t> operands) {
  return nest_of(loop, inputs, std::span(operands.begin(), operands.size()));
}

Nest nest_of(const Loop& loop, std::size_t outputs) {
  std::array<std::size_t, kernels::kMaxOperands> operands;
  for (std::size_t o = 0; o < loop.operands; ++o) operands[o] = (o + outputs) % loop.operands;
  return nest_of(loop, static_cast<int>(loop.operands - outputs), std::span(operands).first(loop.operands));
}

MapPlan plan_map(const Nest& nest, const Sides& sides, int group) {
  const int vector = vector_length(nest, sides);
  MapPlan plan{MapEntry::kElements, nest, kThreads * kElementsPerThread};
  if (has_aligned_vectors(nest, sides, vector)) {
    plan.nest.group(vector);
    plan.entry = MapEntry::kVectors;
    plan.units_per_block = kThreads;
    return plan;
  }
  if (has_flat_rows(nest, sides, vector)) {
    plan.nest.group(1);
    plan.entry = MapEntry::kRows;
    plan.units_per_block = kThreads * vector;
    return plan;
  }
  plan.nest.group(group);
  return plan;
}

void launch_map(Stream& stream, const Kernel& kernel, const MapPlan& plan, const Sides& sides,
                std::span<const Argument> formula) {
  each_part(plan.nest, [&](const Nest& part) {
    const Arguments arguments(part, sides, formula);
    stream.launch(kernel, launch_shape(kThreads, ceil_div(arguments.units(), plan.units_per_block)), arguments.list());
  });
}

}  // namespace polymio::gpu_skeletons
