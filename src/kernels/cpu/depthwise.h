// Depthwise convolution (one input channel a group) and convolution with few channels a group, without a matrix
// product. Forward and backward data are one stencil, written as passes along the three spatial dimensions.
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/conv_gemm.h"

namespace polymio::kernels {

/// Channels first: the innermost spatial strides of x and y are 1, and w_k is c * w_c unless c is 1. Channels last: the
/// channel strides are 1, and groups are used where they lie or by way of copies.
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
  std::int64_t dot_group = 1;               // channels of a group that are multiplied at once
  bool transposed = false;                  // channels are first and copied to be last; only if beta is 0
  std::int64_t transposed_images = 1;       // of a piece that are copied, kTransposedChannels of each
  bool few_pixels = false;                  // channels are first, and lanes
  /// Groups with as many output as input channels, a power of two: a vector has whole groups or is part of one.
  bool aligned() const {
    const bool permutes = shape.c == 1 || dot_group > 1 || shape.dtype == DataType::kFloat;
    return shape.c == shape.k && (shape.c & (shape.c - 1)) == 0 && permutes;
  }
  /// Whether products can be of words of so many channels: groups fill words and divide the 32 channels of a tile.
  bool fills_dot_operands(std::int64_t channels) const {
    const bool divides = shape.c >= channels && shape.c == shape.k && kTransposedChannels % shape.c == 0;
    return (channels_last || transposed) && shape.c > 1 && divides && direction != ConvDirection::kBackwardWeights;
  }
  /// Whether planes have so few pixels, without gaps inside or between them, that vectors of so many lanes should be of
  /// channels.
  bool has_few_pixels(std::int64_t lanes) const;
  /// Whether planes have no gaps between their lines.
  bool has_packed_planes() const;
  /// Whether channels that are first are worth copying: some images of a few stay in the second-level cache, and there
  /// is something to do for so many cores.
  bool can_transpose(std::int64_t cores) const;
  /// How many images are worth copying at once.
  std::int64_t images_to_transpose(std::int64_t cores) const;
  static constexpr std::int64_t kTransposedChannels = 32;
  /// Groups with channels last that are copied.
  bool mixed() const { return channels_last && !aligned(); }
  /// The most channels that a piece covers with channels last.
  std::int64_t channel_block() const;
  /// The most of these blocks that a call takes together for weights, if it has so many: wide parts of pixels are read
  /// faster.
  std::int64_t blocks_at_once() const;
  /// Groups of a piece, unless it is a block of channels.
  std::int64_t together() const;
  /// Independent pieces of work: groups of an image or groups for weights; with channels last that are not copied,
  /// blocks of channels, for weights, or of some rows of an image; turned: blocks of channels of some images; few
  /// pixels: blocks of channels of an image.
  std::int64_t pieces() const;
};

/// Channels of a piece whose planes have few pixels: weights of so many stay in a near cache.
inline constexpr std::int64_t kDepthwisePixelsBlock = 1024;

/// The most rows of pixels that one piece covers with channels last.
inline constexpr std::int64_t kRowBlock = 14;

/// One dimension of backward data at positions phase + i * stride, i < pixels: taps first_tap +
/// t * tap_step, t < taps, reach position origin + i + t * tap_move of dy.
struct PhaseWindow {
  std::int64_t pixels, taps, origin, tap_move, first_tap, tap_step;
};
PhaseWindow phase_window(const ConvShape& shape, int dim, std::int64_t phase);

/// One dimension of a stencil. Result i < count is at out_first + i * out_step; its tap t reads source position
/// first + i * stride + t * dilation, if that is inside, times weight w_first + t * w_step.
struct Pass {
  std::int64_t count, out_first, out_step;
  std::int64_t first, stride, dilation;
  std::int64_t taps, w_first, w_step;
};

/// Backward data has a pass for each residue of the position modulo the stride, everything else has one.
std::int64_t pass_count(const ConvShape& shape, ConvDirection direction, int dim);
Pass pass_of(const ConvShape& shape, ConvDirection direction, int dim, std::int64_t phase);

/// Results first + m * step, m < count, of a pass. Of taps r0, r0 + tap_step, ..., the t-th reads for result m the
/// source line m + t, where lines are `line` positions apart: what one result reads, its neighbours read too.
struct Residue {
  std::int64_t first, step, count, line, tap_step;
};
std::int64_t residue_count(const Pass& pass);
Residue residue_of(const Pass& pass, std::int64_t index);

/// Taps that lie one below another, for a block of results one below another: tap t of result j reads line j + t.
struct TapColumn {
  std::int64_t source;  // element of the source where line 0 is
  std::int64_t weight;  // number of tap 0
  int taps;             // 1, 2, 3 or 5
  unsigned lines;       // bit i: line i is inside the source
  int across;           // which tap of the last dimension
};

/// Where a stencil's source lies: element position * step, plus column[t] for tap t of the last dimension.
struct StencilSource {
  std::int64_t size[kSpatial];
  std::int64_t step[2];
  const std::int64_t* column;
};

/// The columns of taps of results m0 ... m0 + rows - 1 of a residue of the second dimension, at result i0 of the first;
/// ordered by the tap of the last dimension, equally many of each. Returns their number, at most that of taps.
std::int64_t list_columns(const Pass (&pass)[kSpatial], const Residue& residue, std::int64_t i0, std::int64_t m0,
                          std::int64_t rows, const StencilSource& source, const std::int64_t (&taps)[kSpatial],
                          TapColumn* to);

/// The range [low, high) of i < count for which first + i * step is in [0, size).
struct Range {
  std::int64_t low, high;
};
Range inside(std::int64_t first, std::int64_t step, std::int64_t size, std::int64_t count);

}  // namespace polymio::kernels
