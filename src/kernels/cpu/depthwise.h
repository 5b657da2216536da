// Depthwise convolution (one input channel per group) and convolution with few channels per group, without a matrix
// product: the job, the path that computes it, and its pieces.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/conv_shape.h"

namespace polymio::kernels {

struct DirectUnit;
struct Epilogue;

/// Which code computes a job. plan_depthwise() chooses; isa/depthwise.cc has the kernel of each path.
enum class DepthwisePath {
  kNchw,            // fp32 and fp64: vectors along the width, x and y in place
  kNchwFewPixels,   // planes of few pixels: vectors over channels, transposed in registers
  kViaNhwc,         // NCHW: NHWC copies of some channels, computed by the job's copy_path
  kViaFp32,         // fp32 NCHW copies of a few planes: NCHW of other types, NHWC groups that no path below computes
  kNhwc,            // vectors over channels, x and y in place; groups permute them
  kNhwcTapPairs,    // the same by products of bf16 or int8 pairs: two horizontally adjacent taps
  kNhwcGroupedDot,  // the same by products of dot operands: bf16 pairs or int8 quads of a group's channels
};

/// NCHW: the innermost spatial strides of x and y are 1, and w_k == c * w_c unless c is 1. NHWC: the channel strides
/// are 1.
struct Depthwise {
  ConvShape shape;
  ConvDirection direction = ConvDirection::kForward;
  bool channels_last = false;               // the layout of x and y
  DataType result_type = DataType::kFloat;  // of int8 problems: int8, int32 or fp32

  // Set by plan_depthwise().
  DepthwisePath path = DepthwisePath::kNchw;
  DepthwisePath copy_path = DepthwisePath::kNhwc;
  std::int64_t copied_images = 1;  // kViaNhwc, forward and backward data: images per piece

  // Arguments of a call.
  const void* x = nullptr;  // the direction's inputs; its output goes to `result`
  const void* w = nullptr;
  const void* y = nullptr;
  void* result = nullptr;
  double alpha = 1, beta = 0;  // beta == 0: the result is never read
  /// Forward in floating point with beta == 0: scale, bias and an activation that restricts_range(); null: none.
  const Epilogue* epilogue = nullptr;
  std::int64_t epilogue_channel = 0;  // the epilogue's index of the first result channel

  /// Whether there are as many output as input channels per group and their number is a power of two: a vector has
  /// whole groups or is a part of one.
  bool has_aligned_groups() const;
  /// Whether the lines of a plane are contiguous, in x and y.
  bool has_packed_planes() const;
  /// Whether x and y are NHWC and accessed in place.
  bool is_nhwc_in_place() const;
  /// Whether x and y are NHWC and transposed to fp32 NCHW copies.
  bool copies_nhwc_to_fp32() const { return channels_last && path == DepthwisePath::kViaFp32; }
  /// Whether NHWC copies of x and y are computed forward or backward data: requires beta == 0.
  bool copies_data_to_nhwc() const {
    return path == DepthwisePath::kViaNhwc && direction != ConvDirection::kBackwardWeights;
  }
  /// Channels per dot operand.
  std::int64_t dot_group() const;
  /// NHWC: the most channels per piece.
  std::int64_t channel_block() const;
  /// Backward weights: the most of these blocks that a call computes together. Wide parts of pixels are read faster.
  std::int64_t blocks_at_once() const;
  /// Groups per piece, unless a piece is a block of channels.
  std::int64_t groups_per_piece() const;
  /// Number of independent pieces. kNchw and kViaFp32: groups of an image (backward weights: groups). NHWC in place:
  /// blocks of channels of some rows of an image (backward weights: blocks of channels). kViaNhwc: blocks of channels
  /// of some images (backward weights: groups). kNchwFewPixels: blocks of channels of an image.
  std::int64_t pieces() const;
};

struct DepthwiseKernels {
  static constexpr bool kHasDotProducts = true;
  /// Pieces [first, end); scratch holds scratch() bytes.
  void (*run)(const Depthwise& job, std::int64_t first, std::int64_t end, void* scratch);
  std::size_t (*scratch)(const Depthwise& job);
};

/// Channels per piece and call of kViaNhwc, forward and backward data.
inline constexpr std::int64_t kDepthwiseCopiedChannels = 32;

/// Channels per piece of kNchwFewPixels; their weights stay in the first- or second-level cache.
inline constexpr std::int64_t kDepthwisePixelsBlock = 1024;

/// NHWC: the most rows per piece.
inline constexpr std::int64_t kRowBlock = 14;

/// What a plan may depend on besides the problem and the instruction set.
struct DepthwiseLimits {
  std::int64_t cores = 1;   // rather than threads: results must not depend on the number of threads
  bool nhwc_copies = true;  // whether copies_data_to_nhwc() is allowed
  bool grouped_dot = true;  // whether kNhwcGroupedDot is allowed
};

/// Chooses the path. `unit` is that of the problem's data type.
void plan_depthwise(Depthwise& job, const DirectUnit& unit, const DepthwiseLimits& limits);

/// The path of an NCHW job of fp32 or fp64 that is neither kNchwFewPixels nor copies_data_to_nhwc(), for vectors of
/// `lanes` lanes: kNchw, or kViaNhwc for backward weights with short rows or groups, which then need no sums over
/// lanes.
DepthwisePath nchw_path(const Depthwise& job, std::int64_t lanes);

}  // namespace polymio::kernels
