// Plans of depthwise convolutions: the path, the blocks and the pieces of a job.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/depthwise.h"

#include <algorithm>

#include "base/dtype.h"
#include "base/math.h"
#include "kernels/cpu/caches.h"
#include "kernels/cpu/direct.h"

namespace polymio::kernels {
namespace {

using i64 = std::int64_t;

constexpr i64 kLeastBlock = 128;

/// Channels per block of a depthwise problem: long contiguous runs of channels are read faster, but their weights share
/// the first-level cache with x and y.
i64 wide_block(const Depthwise& job) {
  constexpr i64 kWeights = 4608;
  const i64(&taps)[kSpatial] = job.shape.taps;
  return std::max(kLeastBlock, kWeights / (taps[0] * taps[1] * taps[2]));
}

i64 volume(const i64 (&size)[kSpatial]) { return size[0] * size[1] * size[2]; }

bool packed(const i64 (&size)[kSpatial], const i64 (&strides)[kSpatial]) {
  return strides[2] == 1 && (size[1] == 1 || strides[1] == size[2]) &&
         (size[0] == 1 || strides[0] == size[1] * size[2]);
}

/// Bytes of the NHWC copies of one image and one block of channels, x and y.
i64 copied_bytes(const Depthwise& job) {
  const ConvShape& s = job.shape;
  const std::size_t y_element = s.dtype == DataType::kInt8 ? size_of(job.result_type) : size_of(s.dtype);
  return kDepthwiseCopiedChannels *
         (volume(s.in) * static_cast<i64>(size_of(s.dtype)) + volume(s.out) * static_cast<i64>(y_element));
}

i64 copied_blocks(const Depthwise& job) { return ceil_div(job.shape.groups * job.shape.c, kDepthwiseCopiedChannels); }

/// Whether the 32 channels of a copy consist of whole groups.
bool has_whole_groups(const ConvShape& s) { return s.c == s.k && kDepthwiseCopiedChannels % s.c == 0; }

/// Whether the depthwise kernels use the unit's dot products.
bool has_dot_product(const DirectUnit& unit) {
  return unit.math == DirectMath::kInt8 || (unit.math == DirectMath::kBf16 && !unit.amx);
}

/// Whether planes are contiguous and have so few pixels that vectors should run over channels.
bool has_few_pixels(const Depthwise& job, i64 lanes) {
  constexpr i64 kMostTaps = 64;
  const ConvShape& s = job.shape;
  const i64 x = volume(s.in), y = volume(s.out);
  const bool contiguous = job.has_packed_planes() && s.x_c == x && s.y_k == y && s.groups >= lanes;
  const bool depthwise = s.c == 1 && s.k == 1 && job.direction != ConvDirection::kBackwardWeights;
  const bool is_float = s.dtype == DataType::kFloat || s.dtype == DataType::kHalf || s.dtype == DataType::kBFloat16;
  // Wider rows fill more than half of a vector.
  return depthwise && is_float && contiguous && x <= lanes && y <= lanes && s.out[2] <= lanes / 2 &&
         volume(s.taps) <= kMostTaps;
}

/// Whether NHWC copies of an NCHW problem pay, forward and backward data: a block of channels of an image fits the
/// second-level cache, there are blocks for all cores, and the kernel of NHWC is fast.
bool pays_to_copy(const Depthwise& job, const DirectUnit& unit, i64 cores) {
  constexpr i64 kMost = 1792 << 10, kFewest = 16, kWide = 8;  // bytes; channels; lanes with which permuting pays
  const ConvShape& s = job.shape;
  if (job.direction == ConvDirection::kBackwardWeights || !job.has_packed_planes() || !has_whole_groups(s))
    return false;
  if (!has_dot_product(unit) && (s.dtype != DataType::kFloat || unit.lanes < kWide)) return false;
  // The NCHW kernel is slow for narrow images and many taps in fp32, for groups, and for types with dot operands.
  constexpr i64 kNarrow = 8, kManyTaps = 16, kMostTaps = 36;
  const i64 taps = volume(s.taps);
  const bool slow = size_of(s.dtype) < sizeof(float) || taps >= kMostTaps ||
                    (permutes_beside_products() && (s.c > 1 || s.out[2] <= kNarrow || taps >= kManyTaps));
  return slow && s.groups * s.c >= kFewest && copied_bytes(job) <= kMost && copied_blocks(job) * s.n >= cores;
}

/// Images per piece with NHWC copies.
i64 images_to_copy(const Depthwise& job, i64 cores) {
  constexpr i64 kBytes = 512 << 10;
  const i64 share = std::max<i64>(copied_blocks(job) * job.shape.n / (2 * cores), 1);
  return std::clamp<i64>(kBytes / copied_bytes(job), 1, std::min(share, job.shape.n));
}

/// The path of an NHWC job, or of the NHWC copies of a job.
DepthwisePath nhwc_path(const Depthwise& job, const DirectUnit& unit, bool allows_grouped_dot) {
  const ConvShape& s = job.shape;
  const bool is_data = job.direction != ConvDirection::kBackwardWeights;
  if (has_dot_product(unit)) {
    const bool fills_dot_operands = s.c > 1 && s.c >= unit.group && has_whole_groups(s);
    if (allows_grouped_dot && fills_dot_operands && is_data) return DepthwisePath::kNhwcGroupedDot;
    if (s.c == 1 && s.k == 1 && (is_data || s.dtype == DataType::kInt8)) return DepthwisePath::kNhwcTapPairs;
  }
  const bool has_permute = s.c == 1 || s.dtype == DataType::kFloat;
  return has_permute && job.has_aligned_groups() ? DepthwisePath::kNhwc : DepthwisePath::kViaFp32;
}

}  // namespace

DepthwisePath nchw_path(const Depthwise& job, i64 lanes) {
  constexpr i64 kDepthwiseBytes = 40 << 10, kGroupBytes = 1 << 20;  // of x and y per vector of channels, at most
  const ConvShape& s = job.shape;
  const i64 bytes = (volume(s.in) + volume(s.out)) * lanes * static_cast<i64>(size_of(s.dtype));
  const bool has_permute = s.c == 1 || s.dtype == DataType::kFloat;
  if (job.direction != ConvDirection::kBackwardWeights || !has_permute || !job.has_aligned_groups() ||
      s.groups * s.c < lanes || !job.has_packed_planes()) {
    return DepthwisePath::kNchw;
  }
  const bool pays = s.c > 1 ? s.c <= lanes && bytes <= kGroupBytes : 2 * s.out[2] <= lanes && bytes <= kDepthwiseBytes;
  return pays ? DepthwisePath::kViaNhwc : DepthwisePath::kNchw;
}

void plan_depthwise(Depthwise& job, const DirectUnit& unit, const DepthwiseLimits& limits) {
  const DataType type = job.shape.dtype;
  job.copy_path = DepthwisePath::kNhwc;
  if (job.channels_last) {
    job.path = nhwc_path(job, unit, limits.grouped_dot);
    return;
  }
  if (has_few_pixels(job, unit.lanes)) {
    job.path = DepthwisePath::kNchwFewPixels;
    return;
  }
  if (limits.nhwc_copies && pays_to_copy(job, unit, limits.cores)) {
    job.copy_path = nhwc_path(job, unit, limits.grouped_dot);
    if (job.copy_path != DepthwisePath::kViaFp32) {
      job.path = DepthwisePath::kViaNhwc;
      job.copied_images = images_to_copy(job, limits.cores);
      return;
    }
    job.copy_path = DepthwisePath::kNhwc;
  }
  const bool is_wide = type == DataType::kFloat || type == DataType::kDouble;
  job.path = is_wide ? nchw_path(job, unit.lanes) : DepthwisePath::kViaFp32;
}

bool Depthwise::has_aligned_groups() const { return shape.c == shape.k && (shape.c & (shape.c - 1)) == 0; }

bool Depthwise::has_packed_planes() const { return packed(shape.in, shape.x_d) && packed(shape.out, shape.y_d); }

bool Depthwise::is_nhwc_in_place() const {
  return path == DepthwisePath::kNhwc || path == DepthwisePath::kNhwcTapPairs || path == DepthwisePath::kNhwcGroupedDot;
}

i64 Depthwise::dot_group() const {
  constexpr i64 kBytes = 4;  // of a dot operand
  return path == DepthwisePath::kNhwcGroupedDot ? kBytes / static_cast<i64>(size_of(shape.dtype)) : 1;
}

i64 Depthwise::groups_per_piece() const {
  constexpr i64 kLine = 16;  // fp32 channels per cache line
  return copies_nhwc_to_fp32() ? std::clamp<i64>(kLine / std::min(shape.c, shape.k), 1, shape.groups) : 1;
}

i64 Depthwise::channel_block() const {
  // Backward weights have no other pieces than these blocks.
  constexpr i64 kRound = 32;
  const bool is_depthwise = shape.c == 1 && direction != ConvDirection::kBackwardWeights;
  const i64 max_channels = is_depthwise ? wide_block(*this) : kLeastBlock;
  const i64 all = shape.groups * shape.c, blocks = ceil_div(all, max_channels);
  return std::min(all, ceil_div(ceil_div(all, blocks), kRound) * kRound);
}

i64 Depthwise::blocks_at_once() const {
  const bool is_depthwise = shape.c == 1 && direction == ConvDirection::kBackwardWeights;
  return is_depthwise ? wide_block(*this) / kLeastBlock : 1;
}

i64 Depthwise::pieces() const {
  const bool weights = direction == ConvDirection::kBackwardWeights;
  if (path == DepthwisePath::kNchwFewPixels) return ceil_div(shape.groups, kDepthwisePixelsBlock) * shape.n;
  if (copies_data_to_nhwc()) return copied_blocks(*this) * ceil_div(shape.n, copied_images);
  if (!is_nhwc_in_place()) return ceil_div(shape.groups, groups_per_piece()) * (weights ? 1 : shape.n);
  const i64 blocks = ceil_div(shape.groups * shape.c, channel_block());
  const i64* size = direction == ConvDirection::kForward ? shape.out : shape.in;
  return weights ? blocks : blocks * shape.n * size[0] * ceil_div(size[1], kRowBlock);
}

}  // namespace polymio::kernels
