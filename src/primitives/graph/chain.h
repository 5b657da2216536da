// Chains of pointwise nodes as straight-line code, which the CPU interprets by blocks and GPUs compile.
// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <vector>

#include "core/solver.h"
#include "kernels/cpu/chain.h"
#include "primitives/graph/graph.h"

namespace polymio::graph {

/// Whether values of the type need arithmetic in fp64.
constexpr bool is_wide(DataType t) { return t == DataType::kDouble || t == DataType::kInt32 || t == DataType::kInt64; }

/// Operands are numbers of values: the inputs, then the results of instructions, in order.
struct Instruction {
  kernels::ChainOp op = kernels::ChainOp::kConstant;
  int a = -1, b = -1, c = -1;
  double scale = 1, shift = 0;
};

inline constexpr std::size_t kChainInputs = 5, kChainOutputs = 5;
inline constexpr int kChainRegisters = 24;

/// out[i] is the value results[i]; inputs are broadcast to the sizes that all outputs have.
struct Chain {
  std::vector<TensorDesc> in, out;
  std::vector<Instruction> code;
  std::vector<int> results;
  bool in_double = false;

  int add(kernels::ChainOp op, int a, int b = -1, int c = -1) { return push({op, a, b, c}); }
  int affine(int a, double scale, double shift) { return push({kernels::ChainOp::kAffine, a, -1, -1, scale, shift}); }
  int constant(double v) { return push({kernels::ChainOp::kConstant, -1, -1, -1, 1, v}); }

 private:
  int push(const Instruction& i) {
    code.push_back(i);
    return static_cast<int>(in.size() + code.size()) - 1;
  }
};

/// Adds the code of a node whose operands are these values; returns the value of its result.
int lower(Chain&, const Pointwise&, const std::vector<int>& operands);

/// A place in memory of each value that instructions make, used again once nothing reads the value any more.
struct Registers {
  std::vector<int> of;  // by value; inputs have one, too
  int count = 0;
};
Registers assign_registers(const Chain&);

/// Outputs, then inputs.
using ChainRun = std::function<void(Stream&, void* const* out, const void* const* in)>;
ChainRun build_on_cpu(Stream&, const Chain&);
ChainRun build_on_gpu(Stream&, const Chain&);
std::vector<KernelSpec> chain_kernels(const DeviceInfo&, const Chain&);

/// A tensor of random numbers. The seed is in device memory if `seed` is not null.
using RandomRun = std::function<void(Stream&, void* y, const void* offset, const void* seed)>;
RandomRun build_random(Stream&, const Random&, const TensorDesc& y);
std::vector<KernelSpec> position_kernels(const DeviceInfo&, DataType);
RandomRun build_random_on_gpu(Stream&, const Random&, const TensorDesc& y);

inline std::int64_t elements_after(const TensorDesc& t, std::int64_t axis) {
  std::int64_t n = 1;
  for (const std::int64_t size : t.sizes().subspan(static_cast<std::size_t>(axis) + 1)) n *= size;
  return n;
}
/// The index of each element along the axis.
using IndexRun = std::function<void(Stream&, void* y)>;
IndexRun build_index(Stream&, std::int64_t axis, const TensorDesc& y);
IndexRun build_index_on_gpu(Stream&, std::int64_t axis, const TensorDesc& y);

}  // namespace polymio::graph
