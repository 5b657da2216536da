// Padded input tiles of direct convolutions: copies of input rows, channels innermost. Other layouts are transposed in
// registers, as many pixels at once as a vector has lanes.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/direct_stages.h"
#include "kernels/cpu/isa/dot_operands.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

/// `count` pixels of one row of the input tile: positions column + i * step of the source, zero outside [0, width).
template <class S>
struct Row {
  const S* src;  // column 0
  i64 column, step, count, width;
  i64 pixel, channel;    // strides of the source in elements
  i64 channels, padded;  // per pixel: of the source, and of the input tile, whose rest is zero
  i64 to_pixel;          // stride of the input tile in elements
  i64 partner;           // ImagePair: elements from the first half of a pair to the second
  int halves;            // ImagePair: 1 or 2
  int shift;             // ImagePair: 16 if the only half is the upper one
};

/// The element of the input tile for the source element at src.
template <class E, class S>
E element(const Row<S>& r, const S* src) {
  if constexpr (__is_same(E, ImagePair)) {
    const int other = r.halves > 1 ? src[r.partner].bits : 0;
    return {(src->bits | other << 16) << r.shift};
  } else {
    return convert<E>(*src);
  }
}

/// `count` contiguous elements.
template <class E, class S>
void copy_run(const Row<S>& r, const S* src, i64 count, E* to) {
  if constexpr (__is_same(E, ImagePair)) {
    pair_run(src, r.partner, r.halves, count, to, r.shift);
  } else {
    convert_run(src, count, to);
  }
}

/// The dot operands of `channels` channels from c on, of n pixels kStep elements apart.
template <int kStep, class E, class S>
Vec<DotOperand<E>> dot_operands_at(const Row<S>& r, const S* src, i64 c, i64 channels, int n) {
  const S* const from = src + c * r.channel;
  if constexpr (__is_same(E, ImagePair)) {
    return load_dot_operands<Bfloat16>(from, r.partner, r.halves, kStep, n) << r.shift;
  } else {
    return load_dot_operands<E>(from, r.channel, channels, kStep, n);
  }
}

/// Zeros in `channels` channels of `pixels` pixels, `stride` elements apart.
template <class E>
void clear(E* to, i64 pixels, i64 channels, i64 stride) {
  for (i64 i = 0; i < pixels; ++i)
    for (i64 c = 0; c < channels; ++c) to[i * stride + c] = kZero<E>;
}

/// Channels are contiguous in the source.
template <class E, class S>
void copy_pixels(const Row<S>& r, const S* src, i64 pixels, E* to) {
  if (r.step * r.pixel == r.channels && r.to_pixel == r.channels) {
    copy_run(r, src, pixels * r.channels, to);
    return;
  }
  for (i64 i = 0; i < pixels; ++i) {
    copy_run(r, src + i * r.step * r.pixel, r.channels, to + i * r.to_pixel);
    for (i64 c = r.channels; c < r.padded; ++c) to[i * r.to_pixel + c] = kZero<E>;
  }
}

/// Transposes a block: `width` dot operands from channel c on, of `height` pixels kStep elements apart. Not inlined:
/// compilers would compute the addresses of all 16 vectors before the loop, which short rows do not repay.
template <int kStep, class E, class S>
[[gnu::noinline]] void transpose_block(const Row<S>& r, const S* src, i64 c, int width, int height, E* to) {
  using W = DotOperand<E>;
  constexpr int kN = kLanes<W>, kGroup = kGroupOf<E>;
  Vec<W> block[kN];
  if (height == kN && c + kN * kGroup <= r.channels) {  // no branch for each vector
#pragma GCC unroll 16
    for (int j = 0; j < kN; ++j) block[j] = dot_operands_at<kStep, E>(r, src, c + j * kGroup, kGroup, kN);
  } else {
#pragma GCC unroll 16
    for (int j = 0; j < kN; ++j) {
      const i64 first = c + j * kGroup;
      block[j] = j < width ? dot_operands_at<kStep, E>(r, src, first, r.channels - first, height) : Vec<W>{};
    }
  }
  transpose(block);
  for (int j = 0; j < height; ++j) {
    W* p = reinterpret_cast<W*>(to + j * r.to_pixel);
    if (width == kN) {
      store(p, block[j]);
    } else {
      store_lanes(p, block[j], width);
    }
  }
}

/// Every kStep-th pixel of pixels that are contiguous in the source.
template <int kStep, class E, class S>
void transpose_pixels(const Row<S>& r, const S* src, i64 pixels, E* to) {
  constexpr int kN = kLanes<DotOperand<E>>, kGroup = kGroupOf<E>;
  for (i64 c = 0; c < r.padded; c += kN * kGroup) {
    const int width = static_cast<int>(min_of<i64>(kN, (r.padded - c) / kGroup));
    for (i64 i = 0; i < pixels; i += kN) {
      const int height = static_cast<int>(min_of<i64>(kN, pixels - i));
      transpose_block<kStep>(r, src + i * kStep, c, width, height, to + i * r.to_pixel + c);
    }
  }
}

/// Any strides: element by element.
template <class E, class S>
void gather_pixels(const Row<S>& r, const S* src, i64 pixels, E* to) {
  for (i64 c = 0; c < r.padded; ++c) {
    for (i64 i = 0; i < pixels; ++i) {
      to[i * r.to_pixel + c] = c < r.channels ? element<E>(r, src + i * r.step * r.pixel + c * r.channel) : kZero<E>;
    }
  }
}

/// One row with its padding.
template <class E, class S>
void fill_row(const Row<S>& r, E* to) {
  const i64 before = r.column < 0 ? min_of((-r.column + r.step - 1) / r.step, r.count) : 0;
  const i64 reach = r.width > r.column ? (r.width - 1 - r.column) / r.step + 1 : 0;
  const i64 end = max_of(min_of(reach, r.count), before);
  clear(to, before, r.padded, r.to_pixel);
  const S* src = r.src + (r.column + before * r.step) * r.pixel;
  E* first = to + before * r.to_pixel;
  if (r.channel == 1 || r.channels == 1) {
    copy_pixels(r, src, end - before, first);
  } else if (r.pixel == 1 && r.step <= 2 && r.padded % kGroupOf<E> == 0) {
    r.step == 1 ? transpose_pixels<1>(r, src, end - before, first) : transpose_pixels<2>(r, src, end - before, first);
  } else {
    gather_pixels(r, src, end - before, first);
  }
  clear(to + end * r.to_pixel, r.count - end, r.padded, r.to_pixel);
}

template <class E, class S>
void fill(const Direct& job, const DirectPiece& piece, const char* from, char* input_tile) {
  const InputTile& s = job.input_tile;
  const DirectSide& x = job.from;
  const i64 fold = job.cut.fold;
  i64 start[kSpatial];
  for (int d = 0; d < kSpatial; ++d) start[d] = job.first[d] + piece.start[d] * job.input_step(d);
  Row<S> row{nullptr,
             0,
             s.split * job.grain[2],
             0,
             x.size[2],
             x.d[2],
             x.c,
             x.channels,
             job.merged ? x.channels : (x.channels + job.unit.group - 1) / job.unit.group * job.unit.group,
             s.pixel,
             x.partner,
             1,
             0};
  const i64 columns = s.size[2] - (job.cut.columns - piece.count[2]) * job.step[2];
  const i64 rows = s.size[1] - (job.cut.rows - piece.count[1]) * job.step[1];
  for (i64 image = 0; image < (piece.images + fold - 1) / fold * fold; ++image) {
    for (i64 i = 0; i < s.size[0] * rows; ++i) {
      const i64 p0 = start[0] + i / rows * job.grain[0], p1 = start[1] + i % rows * job.grain[1];
      const auto has_line = [&](i64 line) { return line >= 0 && line < x.size[1]; };
      const bool has_slab = p0 >= 0 && p0 < x.size[0] && image < piece.images;
      const bool has_lower = has_slab && has_line(p1);
      const bool has_upper = has_slab && x.half > 0 && has_line(p1 + x.half);
      row.halves = has_lower && (x.half > 0 ? has_upper : x.of_pair(piece.image + image, p1) == 2) ? 2 : 1;
      row.shift = has_upper && !has_lower ? 16 : 0;
      row.width = has_lower || has_upper ? x.size[2] : 0;
      row.src = reinterpret_cast<const S*>(from);
      const i64 line = has_lower ? p1 : p1 + x.half;
      if (has_lower || has_upper) row.src += (piece.image + image) * x.n + p0 * x.d[0] + line * x.d[1];
      E* to = reinterpret_cast<E*>(input_tile) + image / fold * s.image + i / rows * s.slab + i % rows * s.row +
              image % fold * s.pitch;
      for (i64 j = 0; j < s.split; ++j) {
        row.column = start[2] + j * job.grain[2];
        row.count = (columns - j + s.split - 1) / s.split;
        fill_row(row, to + j * s.part);
        // With an odd number of taps and channels the last dot operand has one element more, whose weight is zero.
        if (kGroupOf < E >> 1 && job.merged) to[j * s.part + row.count * s.pixel] = kZero<E>;
      }
    }
  }
}

}  // namespace

void fill_input_tile(const Direct& job, const DirectPiece& piece, const char* from, char* input_tile) {
  const DirectMath math = job.unit.math;
  const DataType type = job.from.type;
  if constexpr (kPacksProducts) {
    if (math == DirectMath::kBf16) return fill<Bfloat16, Bfloat16>(job, piece, from, input_tile);
    if (job.unit.shifts()) return fill<Shifted8, std::int8_t>(job, piece, from, input_tile);
    if (math == DirectMath::kInt8) return fill<std::int8_t, std::int8_t>(job, piece, from, input_tile);
    if (math == DirectMath::kImagePairs) return fill<ImagePair, Bfloat16>(job, piece, from, input_tile);
  }
  if (math == DirectMath::kInt16) return fill<std::int16_t, std::int8_t>(job, piece, from, input_tile);
  if (math == DirectMath::kDouble) return fill<double, double>(job, piece, from, input_tile);
  if (type == DataType::kHalf) return fill<float, Half>(job, piece, from, input_tile);
  if (type == DataType::kBFloat16) return fill<float, Bfloat16>(job, piece, from, input_tile);
  fill<float, float>(job, piece, from, input_tile);
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
