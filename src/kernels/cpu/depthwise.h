// Depthwise convolution (one input channel per group) and convolution with few channels per group, without a matrix
// product. Forward and backward data are the same stencil, described by one Pass per spatial dimension.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/conv_shape.h"

namespace polymio::kernels {

/// NCHW: the innermost spatial strides of x and y are 1, and w_k == c * w_c unless c is 1. NHWC: the channel strides
/// are 1; the kernel reads groups in place or through copies (mixed()).
struct Depthwise {
  ConvShape shape;
  ConvDirection direction = ConvDirection::kForward;
  bool channels_last = false;
  const void* x = nullptr;  // the direction's inputs; its output goes to `result`
  const void* w = nullptr;
  const void* y = nullptr;
  void* result = nullptr;
  DataType result_type = DataType::kFloat;  // of int8 problems: int8, int32 or fp32
  double alpha = 1, beta = 0;               // beta == 0: the result is never read
  std::int64_t dot_group = 1;               // channels per dot operand: 2 (bf16 pair), 4 (int8 quad) or 1
  bool transposed = false;                  // NCHW computed through NHWC copies; requires beta == 0
  std::int64_t transposed_images = 1;       // images per piece, of kTransposedChannels channels each
  bool few_pixels = false;                  // NCHW with channels as lanes: planes of few pixels
  /// Whether NHWC groups can be computed in place: as many output as input channels, their number is a power of
  /// two (a vector has whole groups or is a part of one), and the type has a permute of channels.
  bool aligned() const {
    const bool permutes = shape.c == 1 || dot_group > 1 || shape.dtype == DataType::kFloat;
    return shape.c == shape.k && (shape.c & (shape.c - 1)) == 0 && permutes;
  }
  /// Whether dot operands of `channels` channels can be used: groups consist of whole dot operands, and the 32 channels
  /// of a tile consist of whole groups.
  bool fills_dot_operands(std::int64_t channels) const {
    const bool divides = shape.c >= channels && shape.c == shape.k && kTransposedChannels % shape.c == 0;
    return (channels_last || transposed) && shape.c > 1 && divides && direction != ConvDirection::kBackwardWeights;
  }
  /// Whether planes are contiguous and have so few pixels that vectors of `lanes` lanes should run over channels.
  bool has_few_pixels(std::int64_t lanes) const;
  /// Whether the lines of a plane are contiguous, in x and y.
  bool has_packed_planes() const;
  /// Whether NHWC copies of an NCHW problem pay: a block of channels of an image fits the second-level cache, and there
  /// are blocks for `cores` cores.
  bool can_transpose(std::int64_t cores) const;
  /// Images per piece with NHWC copies.
  std::int64_t images_to_transpose(std::int64_t cores) const;
  static constexpr std::int64_t kTransposedChannels = 32;
  /// NHWC groups that are computed through fp32 NCHW copies.
  bool mixed() const { return channels_last && !aligned(); }
  /// NHWC: the most channels per piece.
  std::int64_t channel_block() const;
  /// Backward weights: the most of these blocks that a call computes together. Wide parts of pixels are read faster.
  std::int64_t blocks_at_once() const;
  /// Groups per piece, unless a piece is a block of channels.
  std::int64_t together() const;
  /// Number of independent pieces. NCHW, and NHWC with copies: groups of an image (backward weights: groups). NHWC in
  /// place: blocks of channels of some rows of an image (backward weights: blocks of channels). `transposed`: blocks of
  /// channels of some images. `few_pixels`: blocks of channels of an image.
  std::int64_t pieces() const;
};

struct DepthwiseKernels {
  static constexpr bool kHasDotProducts = true;
  /// Pieces [first, end); scratch holds scratch() bytes.
  void (*run)(const Depthwise& job, std::int64_t first, std::int64_t end, void* scratch);
  std::size_t (*scratch)(const Depthwise& job);
};

/// Channels per piece with `few_pixels`; their weights stay in the first- or second-level cache.
inline constexpr std::int64_t kDepthwisePixelsBlock = 1024;

/// NHWC: the most rows per piece.
inline constexpr std::int64_t kRowBlock = 14;

/// One dimension of backward data at positions phase + i * stride, i < pixels: taps first_tap + t * tap_step, t < taps,
/// read position origin + i + t * tap_move of dy.
struct PhaseWindow {
  std::int64_t pixels, taps, origin, tap_move, first_tap, tap_step;
};
PhaseWindow phase_window(const ConvShape& shape, int dim, std::int64_t phase);

/// One dimension of a stencil. Result i < count is at out_first + i * out_step; its tap t multiplies source
/// position first + i * stride + t * dilation, if that is inside, by weight w_first + t * w_step.
struct Pass {
  std::int64_t count, out_first, out_step;
  std::int64_t first, stride, dilation;
  std::int64_t taps, w_first, w_step;
};

/// Passes of a dimension: one per phase in backward data, else one.
std::int64_t pass_count(const ConvShape& shape, ConvDirection direction, int dim);
Pass pass_of(const ConvShape& shape, ConvDirection direction, int dim, std::int64_t phase);

/// Results first + m * step, m < count, of a pass, which share source lines: for result m, the t-th of the taps r0,
/// r0 + tap_step, ... reads line m + t. Lines are `line` source positions apart.
struct Residue {
  std::int64_t first, step, count, line, tap_step;
};
std::int64_t residue_count(const Pass& pass);
Residue residue_of(const Pass& pass, std::int64_t index);

/// Vertically adjacent taps for a block of vertically adjacent results: tap t of result j reads line j + t.
struct TapColumn {
  std::int64_t source;  // element of line 0 in the source
  std::int64_t weight;  // index of tap 0
  int taps;             // 1, 2, 3 or 5
  unsigned lines;       // bit i: line i is inside the source
  int across;           // tap of the last dimension
};

/// A stencil's source: sizes, strides of dimensions 0 and 1, and the offset column[t] of tap t of dimension 2, in
/// elements.
struct StencilSource {
  std::int64_t size[kSpatial];
  std::int64_t step[2];
  const std::int64_t* column;
};

/// Lists the columns of taps of results m0 ... m0 + rows - 1 of a residue of dimension 1, at result i0 of dimension 0,
/// ordered by the tap of dimension 2, with the same number of columns per tap. Returns the number of columns, at most
/// that of taps.
std::int64_t list_columns(const Pass (&pass)[kSpatial], const Residue& residue, std::int64_t i0, std::int64_t m0,
                          std::int64_t rows, const StencilSource& source, const std::int64_t (&taps)[kSpatial],
                          TapColumn* columns);

/// The range [low, high) of i < count for which first + i * step is in [0, size).
struct Range {
  std::int64_t low, high;
};
Range inside(std::int64_t first, std::int64_t step, std::int64_t size, std::int64_t count);

}  // namespace polymio::kernels
