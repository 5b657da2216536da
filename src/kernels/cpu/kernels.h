// The table of CPU kernels: entry points per instruction set.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/activation.h"
#include "kernels/cpu/im2col.h"
#include "kernels/cpu/depthwise.h"
#include "kernels/cpu/direct.h"
#include "kernels/cpu/epilogue.h"
#include "kernels/cpu/fft.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/direct_backward_weights.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/tensor_ops.h"
#include "kernels/cpu/winograd.h"

namespace polymio::kernels {

/// Every entry point is serial and reentrant; callers cut the work into pieces and pass each piece
/// scratch memory aligned to kScratchAlignment.
struct KernelTable {
  /// Register tile for a type of C; DataType::kDouble or any 32/16-bit float.
  TileShape (*gemm_tile)(DataType type);
  /// Scratch bytes of a call on `rows` x `columns` of C.
  std::size_t (*gemm_scratch)(const Gemm& gemm, std::int64_t rows, std::int64_t columns);
  /// Computes rows [m0, m1) x columns [n0, n1) of C over all of k. Results do not depend on how C is cut.
  void (*gemm)(const Gemm& gemm, std::int64_t m0, std::int64_t m1, std::int64_t n0, std::int64_t n1, void* scratch);
  /// Stores rows [first, end) of the columns at `columns`, in the view's element type.
  void (*im2col)(const Columns& what, std::int64_t first, std::int64_t end, void* columns);
  /// Rows [first, end) of the sum; scratch holds col2im_scratch bytes.
  void (*col2im)(const ColumnSum& sum, std::int64_t first, std::int64_t end, void* scratch);
  std::size_t (*col2im_scratch)(const ColumnSum& sum);
  /// Pieces [first, end) of a depthwise convolution; scratch holds depthwise_scratch bytes.
  void (*depthwise)(const Depthwise& job, std::int64_t first, std::int64_t end, void* scratch);
  std::size_t (*depthwise_scratch)(const Depthwise& job);
  /// Products and register tiles of direct convolutions for an input type.
  DirectUnit (*direct_unit)(DataType type);
  /// Pieces [first, end) of a direct convolution; scratch holds job.places.total bytes.
  void (*direct)(const Direct& job, const DirectArgs& args, std::int64_t first, std::int64_t end, void* scratch);
  /// Packs panels [first, end) of job.packings() into args.packed; scratch as above.
  void (*direct_pack)(const Direct& job, const DirectArgs& args, std::int64_t first, std::int64_t end, void* scratch);
  /// Pieces [first, end) of the backward weights of a direct convolution; scratch holds job.places.total bytes.
  void (*gradient)(const DirectGradient& job, const GradientArgs& args, std::int64_t first, std::int64_t end,
                   void* scratch);
  /// Adds the slices of results [first, end) of job.results() and writes dw; scratch as above.
  void (*gradient_sum)(const DirectGradient& job, const GradientArgs& args, std::int64_t first, std::int64_t end,
                       void* scratch);
  /// Elements [first, end).
  void (*activation)(const Activation& job, std::int64_t first, std::int64_t end);
  /// Rows [m0, m1) x columns [n0, n1) of y.
  void (*epilogue)(const Epilogue& job, std::int64_t m0, std::int64_t m1, std::int64_t n0, std::int64_t n1);
  /// Output channels per panel of filters.
  int (*winograd_panel)();
  /// Transforms the filters of panels [first, end), ordered by group, into job.memory (winograd_memory bytes).
  void (*winograd_filters)(const Winograd& job, std::int64_t first, std::int64_t end, void* scratch);
  /// Pieces [first, end); with job.stored, job.memory has the transformed filters. Both need winograd_scratch bytes.
  void (*winograd)(const Winograd& job, std::int64_t first, std::int64_t end, void* scratch);
  std::size_t (*winograd_scratch)(const Winograd& job);
  std::size_t (*winograd_memory)(const Winograd& job);
  /// Pieces [first, end) of a stage; scratch holds job.scratch() bytes.
  void (*fft)(const Fft& job, FftStage stage, std::int64_t first, std::int64_t end, void* scratch);
  /// Pieces [first, end) into job.memory (winograd_weights_memory bytes).
  void (*winograd_weights)(const WinogradWeights& job, std::int64_t first, std::int64_t end, void* scratch);
  /// Vectors [first, end) of output channels, ordered by group: adds the slices and writes dw.
  void (*winograd_weights_sum)(const WinogradWeights& job, std::int64_t first, std::int64_t end);
  std::size_t (*winograd_weights_scratch)(const WinogradWeights& job);
  std::size_t (*winograd_weights_memory)(const WinogradWeights& job);
  /// A run of out = a * logistic(b), in[0] and in[1]; backward of da and db, from a, b and the gradient of out.
  void (*glu)(DataType type, bool backward, const Run& run);
  /// The kernel of a binary operation, or null if there is none for its types.
  BinaryKernel (*binary)(const Binary& job);
  /// The sum in double of elements of a type, or null.
  const Reduction<>* (*sum)(DataType type);
};

/// The entry points for an instruction set that the running CPU must have.
const KernelTable& kernel_table(Isa isa);

}  // namespace polymio::kernels
