// What solvers that copy their operands share with ConvHopper: the solver itself, the arguments of its product.
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>

#include "core/kernel_builder.h"
#include "kernels/gpu/sm90/conv_shape.h"
#include "primitives/convolution/convolution.h"

namespace polymio::convolution::cuda {

/// As in hopper.cu.
template <int kPhases>
struct HopperHalfMaps {};
template <>
struct HopperHalfMaps<1> {
  TensorMap half_weights, half_src;
};

/// The arguments of ConvProduct.
template <int kPhases>
struct HopperProductArguments : HopperHalfMaps<kPhases> {
  TensorMap weights, residual, src[kPhases], dst[kPhases];
  kernels::ConvPhase phase[kPhases];
  kernels::ConvProductShape shape;
  kernels::ConvChannelParameters parameters;
  void* dst_data;
  const void* residual_data;
};

/// The last arguments of the templates of forward and backward data.
std::string hopper_epilogue(const Problem&);
kernels::ConvScalars hopper_scalars(const Problem::Args&);
kernels::ConvChannelParameters hopper_parameters(const Problem&, const Problem::Args&);

/// What ConvHopperSplit and ConvCudaLongFiltersSplit compute with.
constexpr const char* kSplitArithmetic =
    "products of three bf16 parts of each operand, or of fp32 where parts cannot represent an operand";

std::unique_ptr<const GpuSolver<Problem>> make_hopper(const SolverInfo&, Direction);

/// `most_bytes`: of copies of a problem that is not sliced.
std::unique_ptr<const GpuSolver<Problem>> make_hopper_packed(const SolverInfo&, Direction, std::int64_t most_bytes);
std::unique_ptr<const GpuSolver<Problem>> make_hopper_split(const SolverInfo&, Direction, std::int64_t most_bytes);

}  // namespace polymio::convolution::cuda
