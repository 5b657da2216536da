// The steps of a direct convolution that its loops are made of: filling a strip, packing weights, storing sums.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/direct.h"
#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/vec.h"

namespace polymio::kernels::POLYMIO_SHARED_NAMESPACE {

using i64 = std::int64_t;

/// What one piece covers; at and count are in cells.
struct DirectPiece {
  i64 group, image, images, panel, panels;
  i64 at[kSpatial], count[kSpatial];
};

/// The padded copy of the input that the piece reads; `from` is the group's.
void fill_input_tile(const Direct& job, const DirectPiece& piece, const char* from, char* input_tile);

/// Weights of a panel: [tap][channel / group][lane][channel % group], zero where there are no channels. Behind
/// them, if inputs are shifted: 128 times the sum of each lane's weights. `transposed`: scratch. Of `parts` parts of
/// the channels only one.
void pack_panel(const Direct& job, i64 panel, const char* weights, char* packed, char* transposed, i64 part = 0,
                i64 parts = 1);

/// A line of sums: `count` outputs of `channels` channels.
struct DirectLine {
  char* sums;
  i64 sums_pixel;  // bytes from output to output
  i64 count, channels;
  char* to;
  i64 pixel, channel;         // strides of `to` in elements
  bool non_temporal = false;  // past the caches; fp32 or int32, not scaled, vectors aligned
};

/// Sums of whole vectors: `pixels` times `lanes`, of which `channels` count. `first` is the channel of lane 0.
struct DirectSums {
  char* sums;
  i64 pixels, lanes, channels, first;
  const char* zero_point;  // what pack_panel put behind the weights
};

/// Subtracts what int8 sums have too much; applies alpha, the bias and the activation of an epilogue.
void finish_sums(const Direct& job, const DirectArgs& args, const DirectSums& sums);

/// Scales (unless an epilogue did), converts and stores.
void store_line(const Direct& job, const DirectArgs& args, const DirectLine& line);

}  // namespace polymio::kernels::POLYMIO_SHARED_NAMESPACE
