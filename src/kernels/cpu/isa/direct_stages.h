// The stages of a direct convolution: filling the padded input tile, packing weights, finishing and storing sums.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/direct.h"
#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/vec.h"

namespace polymio::kernels::POLYMIO_SHARED_NAMESPACE {

using i64 = std::int64_t;

static inline i64 bytes_of(DataType type, i64 elements) { return elements * static_cast<i64>(size_of(type)); }

/// The outputs of one piece: a group, images, panels of output channels, and cells [start, start + count) per
/// dimension.
struct DirectPiece {
  i64 group, image, images, panel, panels;
  i64 start[kSpatial], count[kSpatial];
};

/// Copies the input that the piece reads, with its padding, to input_tile. `from`: the group's channel 0.
void fill_input_tile(const Direct& job, const DirectPiece& piece, const char* from, char* input_tile);

/// Packs the weights of a panel: [tap][channel / group][lane][channel % group], zero for missing channels, followed by
/// the zero point of each lane (128 times the sum of its weights) if job.unit.shifts(). `weights`: the group's;
/// `transposed`: scratch. Packs part `part` of `parts` parts of the channels only.
void pack_panel(const Direct& job, i64 panel, const char* weights, char* packed, char* transposed, i64 part = 0,
                i64 parts = 1);

/// A line of sums, `count` outputs of `channels` channels, and its place in the result.
struct DirectLine {
  char* sums;
  i64 sums_pixel;  // bytes between outputs
  i64 count, channels;
  char* to;
  i64 pixel, channel;         // strides of `to` in elements
  bool non_temporal = false;  // non-temporal stores: only fp32 or int32, unscaled, aligned vectors
};

/// Sums of `pixels` x `lanes`, whole vectors; the first `channels` lanes are used. `first`: the channel of lane 0.
/// Their place in the result is that of `images` lines whose pixels alternate.
struct DirectSums {
  char* sums;
  i64 pixels, lanes, channels, first;
  const char* zero_point;  // s32 per lane, from pack_panel()
  const char* to;
  i64 to_pixel, images;
};

/// Whether store_scaled_line() applies alpha and the epilogue, so that finish_sums() does not.
bool stores_scaled(const Direct& job, const DirectArgs& args);
void store_scaled_line(const DirectArgs& args, const DirectLine& line, i64 first_channel);

/// Subtracts the zero point of int8 sums; applies alpha and the epilogue. In place.
void finish_sums(const Direct& job, const DirectArgs& args, const DirectSums& sums);

/// Stores a line: scaled by alpha (unless an epilogue did) and beta, and converted.
void store_line(const Direct& job, const DirectArgs& args, const DirectLine& line);

}  // namespace polymio::kernels::POLYMIO_SHARED_NAMESPACE

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Sets the cells of a piece from the fastest digits of its index; returns the other digits.
static inline i64 locate_cells(const Direct& job, i64 index, DirectPiece& piece) {
  const i64 block[kSpatial] = {1, job.cut.rows, job.cut.columns};
  for (int d = kSpatial - 1; d >= 0; --d) {
    const i64 blocks = ceil_div(job.cells[d], block[d]);
    piece.start[d] = index % blocks * block[d];
    piece.count[d] = min_of(block[d], job.cells[d] - piece.start[d]);
    index /= blocks;
  }
  return index;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
