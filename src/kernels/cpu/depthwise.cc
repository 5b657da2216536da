// Pieces of depthwise convolutions; convolutions as stencils: passes, residues of results that share source lines, and
// columns of taps.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/depthwise.h"

#include <algorithm>
#include <numeric>

#include "base/math.h"
#include "base/dtype.h"
#include "kernels/cpu/caches.h"

namespace polymio::kernels {
namespace {

using i64 = std::int64_t;

/// Taps of the next column if `left` taps remain: the fewer columns, the fewer loads.
i64 column_taps(i64 left) {
  if (left >= 5 && left != 6) return 5;
  return left == 3 || left == 6 ? 3 : std::min<i64>(left, 2);
}

/// Bit i: line i of a column is inside the source.
unsigned lines_inside(i64 first, i64 step, i64 size, i64 lines) {
  const Range r = inside(first, step, size, lines);
  return r.high > r.low ? (1u << r.high) - (1u << r.low) : 0;
}

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
i64 transposed_bytes(const Depthwise& job) {
  const ConvShape& s = job.shape;
  const std::size_t y_element = s.dtype == DataType::kInt8 ? size_of(job.result_type) : size_of(s.dtype);
  return Depthwise::kTransposedChannels *
         (volume(s.in) * static_cast<i64>(size_of(s.dtype)) + volume(s.out) * static_cast<i64>(y_element));
}

i64 transposed_blocks(const Depthwise& job) {
  return ceil_div(job.shape.groups * job.shape.c, Depthwise::kTransposedChannels);
}

}  // namespace

bool Depthwise::has_packed_planes() const { return packed(shape.in, shape.x_d) && packed(shape.out, shape.y_d); }

bool Depthwise::has_few_pixels(i64 lanes) const {
  constexpr i64 kMostTaps = 64;
  const i64 x = volume(shape.in), y = volume(shape.out);
  const bool contiguous = has_packed_planes() && shape.x_c == x && shape.y_k == y && shape.groups >= lanes;
  const bool depthwise = shape.c == 1 && shape.k == 1 && direction != ConvDirection::kBackwardWeights;
  const bool is_float =
      shape.dtype == DataType::kFloat || shape.dtype == DataType::kHalf || shape.dtype == DataType::kBFloat16;
  // Wider rows fill more than half of a vector.
  return !channels_last && depthwise && is_float && contiguous && x <= lanes && y <= lanes &&
         shape.out[2] <= lanes / 2 && volume(shape.taps) <= kMostTaps;
}

bool Depthwise::can_transpose(i64 cores) const {
  constexpr i64 kMost = 1792 << 10, kFewest = 16;  // bytes; channels
  const bool is_packed = !channels_last && has_packed_planes() && shape.groups * shape.c >= kFewest;
  const bool divides = shape.c == shape.k && kTransposedChannels % shape.c == 0;
  // The NCHW kernel is slow for narrow images and many taps in fp32, for groups, and for types with dot operands.
  constexpr i64 kNarrow = 8, kManyTaps = 16, kMostTaps = 36;
  const i64 taps = volume(shape.taps);
  const bool slow = size_of(shape.dtype) < sizeof(float) || taps >= kMostTaps ||
                    (permutes_beside_products() && (shape.c > 1 || shape.out[2] <= kNarrow || taps >= kManyTaps));
  return is_packed && divides && slow && direction != ConvDirection::kBackwardWeights &&
         transposed_bytes(*this) <= kMost && transposed_blocks(*this) * shape.n >= cores;
}

i64 Depthwise::images_to_transpose(i64 cores) const {
  constexpr i64 kBytes = 512 << 10;
  const i64 share = std::max<i64>(transposed_blocks(*this) * shape.n / (2 * cores), 1);
  return std::clamp<i64>(kBytes / transposed_bytes(*this), 1, std::min(share, shape.n));
}

i64 Depthwise::together() const {
  constexpr i64 kLine = 16;  // fp32 channels per cache line
  return mixed() ? std::clamp<i64>(kLine / std::min(shape.c, shape.k), 1, shape.groups) : 1;
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
  if (few_pixels) return ceil_div(shape.groups, kDepthwisePixelsBlock) * shape.n;
  if (transposed) return transposed_blocks(*this) * ceil_div(shape.n, transposed_images);
  if (!channels_last || mixed()) return ceil_div(shape.groups, together()) * (weights ? 1 : shape.n);
  const i64 blocks = ceil_div(shape.groups * shape.c, channel_block());
  const i64* size = direction == ConvDirection::kForward ? shape.out : shape.in;
  return weights ? blocks : blocks * shape.n * size[0] * ceil_div(size[1], kRowBlock);
}

PhaseWindow phase_window(const ConvShape& s, int d, i64 phase) {
  const i64 stride = s.stride[d], dilation = s.dilation[d];
  const i64 divisor = std::gcd(stride, dilation), step = stride / divisor;
  PhaseWindow w{(s.in[d] - phase + stride - 1) / stride, 0, 0, -dilation / divisor, 0, step};
  for (i64 r = 0; r < std::min(step, s.taps[d]); ++r) {
    const i64 position = phase + s.pad[d] - r * dilation;
    if (position % stride != 0) continue;
    w.first_tap = r;
    w.origin = position / stride;
    w.taps = (s.taps[d] - r + step - 1) / step;
    break;
  }
  return w;
}

i64 pass_count(const ConvShape& s, ConvDirection direction, int d) {
  return direction == ConvDirection::kBackwardData ? std::min(s.stride[d], s.in[d]) : 1;
}

Pass pass_of(const ConvShape& s, ConvDirection direction, int d, i64 phase) {
  Pass p{s.out[d], 0, 1, -s.pad[d], s.stride[d], s.dilation[d], s.taps[d], 0, 1};
  if (direction == ConvDirection::kBackwardData) {
    // Taps in reverse order, so that source positions ascend.
    const PhaseWindow w = phase_window(s, d, phase);
    const i64 last = std::max<i64>(w.taps - 1, 0);
    p = {w.pixels,   phase,       s.stride[d], w.origin + last * w.tap_move,
         1,          -w.tap_move, w.taps,      w.first_tap + last * w.tap_step,
         -w.tap_step};
  }
  if (p.taps <= 1) p.dilation = 1;
  return p;
}

i64 residue_count(const Pass& p) { return std::min(p.dilation / std::gcd(p.stride, p.dilation), p.count); }

Residue residue_of(const Pass& p, i64 index) {
  const i64 divisor = std::gcd(p.stride, p.dilation), step = p.dilation / divisor;
  return {index, step, ceil_div(p.count - index, step), p.stride * step, p.stride / divisor};
}

Range inside(i64 first, i64 step, i64 size, i64 count) {
  const i64 low = first < 0 ? ceil_div(-first, step) : 0;
  const i64 high = first >= size ? 0 : std::min(count, (size - 1 - first) / step + 1);
  return {std::min(low, std::max<i64>(high, 0)), std::max<i64>(high, 0)};
}

i64 list_columns(const Pass (&pass)[kSpatial], const Residue& residue, i64 i0, i64 m0, i64 rows,
                 const StencilSource& source, const i64 (&taps)[kSpatial], TapColumn* columns) {
  const i64 start = pass[1].first + (residue.first + m0 * residue.step) * pass[1].stride;
  const i64 slab = pass[0].first + i0 * pass[0].stride;
  const Range depth = inside(slab, pass[0].dilation, source.size[0], pass[0].taps);
  i64 listed = 0;
  for (i64 t2 = 0; t2 < pass[2].taps; ++t2) {
    for (i64 t0 = depth.low; t0 < depth.high; ++t0) {
      const i64 offset = (slab + t0 * pass[0].dilation) * source.step[0] + source.column[t2];
      const i64 w0 = pass[0].w_first + t0 * pass[0].w_step, w2 = pass[2].w_first + t2 * pass[2].w_step;
      for (i64 r0 = 0; r0 < std::min(residue.tap_step, pass[1].taps); ++r0) {
        const i64 taps_of_residue = ceil_div(pass[1].taps - r0, residue.tap_step);
        for (i64 t = 0, count = 0; t < taps_of_residue; t += count) {
          count = column_taps(taps_of_residue - t);
          const i64 line = start + r0 * pass[1].dilation + t * residue.line;
          const unsigned lines = lines_inside(line, residue.line, source.size[1], rows + count - 1);
          if (lines == 0) continue;
          const i64 w1 = pass[1].w_first + (r0 + t * residue.tap_step) * pass[1].w_step;
          columns[listed++] = {offset + line * source.step[1], (w0 * taps[1] + w1) * taps[2] + w2,
                               static_cast<int>(count), lines, static_cast<int>(t2)};
        }
      }
    }
  }
  return listed;
}

}  // namespace polymio::kernels
