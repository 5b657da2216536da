// The walk over pixels with channels last: pieces, residues of strides, blocks of rows one below another and the pixels
// of a line, for kernels that compute a block's results from a list of columns of taps.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/caches.h"
#include "kernels/cpu/isa/depthwise_nhwc_tile.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// One residue of the columns: its taps, `each` columns of them for each tap across.
struct Across {
  Pass pass;
  const TapColumn* columns;
  i64 each;
  Form form;
  bool inside;  // no tap of the current rows is outside, above or below; always false from memory
};

/// Kernel has pack(), which follows take(); row_weights(), vectors between the weights of two rows of taps; and
/// pixels<kRows>(across, taps, neighbours, x, out, unit): results of the taps in a range, of block_.run pixels in turn
/// or of one or two neighbours, from a unit of kUnit channels on. R: the type of results.
template <class Kernel, class S, class R, int kUnit>
class PixelWalk {
 protected:
  using T = Sum<S>;
  using V = Vec<T>;
  /// Of groups, in a tile: their sums and what is added to them are in registers.
  static constexpr int kMostPixels = 2 * kMostRows + 4 <= kRegisters ? 2 : 1;
  static constexpr int kN = kLanes<T>;
  static constexpr bool kWholeLines = kVectorBytes == 64 && kUnit * sizeof(R) % 64 == 0;

  PixelWalk(const Depthwise& job, i64 unit, void* scratch)
      : job_(job),
        s_(job.shape),
        data_(job.direction == ConvDirection::kBackwardData),
        weights_only_(job.direction == ConvDirection::kBackwardWeights),
        runs_(s_.c == 1 || job.dot_group > 1),
        unit_(unit) {
    taps_ = s_.taps[0] * s_.taps[1] * s_.taps[2];
    from_ = data_ ? s_.y_d : s_.x_d;
    to_ = data_ ? s_.x_d : s_.y_d;
    for (int d = 0; d < kSpatial; ++d) source_.size[d] = data_ ? s_.out[d] : s_.in[d];
    source_.step[0] = from_[0];
    source_.step[1] = from_[1];
    vectors_ = static_cast<V*>(scratch);
    columns_ = reinterpret_cast<TapColumn*>(vectors_ + most_units(job) * unit_);
    across_ = reinterpret_cast<Across*>(columns_ + taps_);
    offsets_ = reinterpret_cast<i64*>(across_ + pass_count(s_, job.direction, 2));
    source_.column = offsets_;
    block_.alpha = static_cast<T>(job.alpha);
    block_.beta = static_cast<T>(job.beta);
    block_.non_temporal = writes_non_temporal();
    fetches_ = runs_ && bytes_moved() > 3 * kResultCaches && fetches_streams();  // no cache keeps them
  }
  ~PixelWalk() {
#if defined(__AVX512F__)
    if (block_.non_temporal) _mm_sfence();  // other threads read the result when they see that the task is done
#endif
  }

  static std::size_t bytes(const Depthwise& job, i64 unit) {
    const i64 taps = job.shape.taps[0] * job.shape.taps[1] * job.shape.taps[2];
    return static_cast<std::size_t>(most_units(job) * unit) * sizeof(V) +
           static_cast<std::size_t>(taps) * sizeof(TapColumn) + static_cast<std::size_t>(job.shape.taps[2]) * 8 +
           static_cast<std::size_t>(pass_count(job.shape, job.direction, 2)) * sizeof(Across);
  }

  void piece(i64 index) {
    const i64* size = data_ ? s_.in : s_.out;
    const i64 row_blocks = ceil_div(size[1], kRowBlock), part = index % row_blocks, slab = index / row_blocks % size[0];
    const i64 n = index / (row_blocks * size[0]) % s_.n;
    take(index / (row_blocks * size[0] * s_.n), 1);
    x_ = static_cast<const S*>(data_ ? job_.y : job_.x) + n * (data_ ? s_.y_n : s_.x_n) + channel_;
    out_ = static_cast<R*>(job_.result) + n * (data_ ? s_.x_n : s_.y_n) + channel_;
    const i64 phases = pass_count(s_, job_.direction, 0), f0 = slab % phases;
    for (i64 f1 = 0; f1 < pass_count(s_, job_.direction, 1); ++f1) phase(f0, f1, slab / phases, part, row_blocks);
  }

  static i64 most_units(const Depthwise& job) { return ceil_div(job.blocks_at_once() * job.channel_block(), kUnit); }

  /// Vectors of channels that are done for a row of pixels before others: with small images, as many as stay in the
  /// first-level cache while the taps across move over them. Otherwise whole pixels, which are read faster than parts.
  i64 units_at_once() const {
    constexpr i64 kSmall = 256 << 10, kUnitBytes = 512;
    const i64 bytes = source_.size[1] * source_.size[2] * channels_ * static_cast<i64>(sizeof(S));
    return weights_only_ || bytes > kSmall ? units_ : kUnitBytes / kVectorBytes;
  }

  /// Bytes of source and result.
  i64 bytes_moved() const {
    const i64 in = s_.in[0] * s_.in[1] * s_.in[2], out = s_.out[0] * s_.out[1] * s_.out[2];
    const i64 source = data_ ? out : in, result = in + out - source;
    return s_.n * s_.groups * s_.c * (source * static_cast<i64>(sizeof(S)) + result * static_cast<i64>(sizeof(R)));
  }
  /// Results that are not read, aligned, and with their source larger than what caches keep.
  bool writes_non_temporal() const {
    const i64 steps = to_[0] | to_[1] | to_[2] | (data_ ? s_.x_n : s_.y_n);
    return kWholeLines && !weights_only_ && job_.beta == 0 && steps * static_cast<i64>(sizeof(R)) % 64 == 0 &&
           reinterpret_cast<std::uintptr_t>(job_.result) % 64 == 0 && bytes_moved() > kResultCaches / 2;
  }

  /// Makes some blocks of channels the current ones.
  void take(i64 block, i64 blocks) {
    if (block == taken_) return;
    taken_ = block;
    channel_ = block * job_.channel_block();
    channels_ = min_of(blocks * job_.channel_block(), s_.groups * s_.c - channel_);
    units_ = ceil_div(channels_, kUnit);
    if (!weights_only_) kernel().pack();
  }

  /// Weights of `some` channels as vectors of kN, for each tap and channel that they meet.
  void take_weights(i64 first, i64 some, V* vectors) const {
    const S* w = static_cast<const S*>(job_.w);
    if (s_.c == 1 && taps_packed()) {
      for (i64 t = 0; t < taps_; t += kN) {
        transpose_from(w + first * s_.w_k + t, some, min_of<i64>(kN, taps_ - t), vectors + t);
      }
      return;
    }
    i64 place[kN];
    for (i64 l = 0; l < some; ++l) place[l] = place_of(first + l);
    const i64 step = data_ ? s_.w_k : s_.w_c;
    T* to = reinterpret_cast<T*>(vectors);
    each_tap([&](i64 at) {
      for (i64 j = 0; j < s_.c; ++j, at += step, to += kN) {
        for (i64 l = 0; l < kN; ++l) to[l] = l < some ? widen(w[at + place[l]]) : T{};
      }
    });
  }
  /// Where the first weight is that a channel of the result meets.
  i64 place_of(i64 channel) const {
    return data_ ? channel / s_.c * s_.c * s_.w_k + channel % s_.c * s_.w_c : channel * s_.w_k;
  }
  bool taps_packed() const {
    const i64 *taps = s_.taps, *steps = s_.w_d;
    return (taps[2] == 1 || steps[2] == 1) && (taps[1] == 1 || steps[1] == taps[2]) &&
           (taps[0] == 1 || steps[0] == taps[1] * taps[2]);
  }
  /// `taps` taps of `channels` filters as vectors of channels.
  void transpose_from(const S* w, i64 channels, i64 taps, V* to) const {
    if (taps == 1) {  // left of 3x3, 5x5 and 7x7 by vectors of four and eight
      T* const lanes = reinterpret_cast<T*>(to);
      for (i64 l = 0; l < kN; ++l) lanes[l] = l < channels ? widen(w[l * s_.w_k]) : T{};
      return;
    }
    with_taps_of_vector(taps, [&](const auto& some) {
      V rows[kN];
#pragma GCC unroll 16
      for (i64 l = 0; l < kN; ++l) rows[l] = l < channels ? some(w + l * s_.w_k) : V{};
      transpose(rows);
      for (i64 t = 0; t < taps; ++t) to[t] = rows[t];
    });
  }
  template <class Use>
  static void with_taps_of_vector(i64 taps, const Use& use) {
    if (taps == kN) return use(AllChannels<S>{});
    use(SomeChannels<S>{static_cast<int>(taps)});
  }
  template <class Use>
  void each_tap(const Use& use) const {
    for (i64 r0 = 0; r0 < s_.taps[0]; ++r0) {
      for (i64 r1 = 0; r1 < s_.taps[1]; ++r1) {
        for (i64 r2 = 0; r2 < s_.taps[2]; ++r2) use(r0 * s_.w_d[0] + r1 * s_.w_d[1] + r2 * s_.w_d[2]);
      }
    }
  }

  void phase(i64 f0, i64 f1, i64 slab, i64 part, i64 parts) {
    const Pass down = pass_of(s_, job_.direction, 1, f1);
    for (i64 a = 0; a < residue_count(down); ++a) {
      const Residue residue = residue_of(down, a);
      i64 m = residue.count * part / parts, rows = 0;
      for (const i64 end = residue.count * (part + 1) / parts; m < end; m += rows) {
        rows = tile_rows(end - m, kMostRows);
        row_block(pass_of(s_, job_.direction, 0, f0), down, residue, slab, m, rows);
      }
    }
  }

  /// All residues of the columns together: they read the same lines.
  void row_block(const Pass& slabs, const Pass& down, const Residue& residue, i64 slab, i64 m, i64 rows) {
    const i64 phases = pass_count(s_, job_.direction, 2);
    TapColumn* columns = columns_;
    i64 pixels = 0;
    for (i64 f = 0; f < phases; ++f) {
      const Pass pass[kSpatial] = {slabs, down, pass_of(s_, job_.direction, 2, f)};
      for (i64 t = 0; t < pass[2].taps; ++t) offsets_[t] = t * pass[2].dilation * from_[2];
      const i64 count = list_columns(pass, residue, slab, m, rows, source_, s_.taps, columns);
      const i64 each = pass[2].taps > 0 ? count / pass[2].taps : 0;
      across_[f] = {pass[2], columns, each, fetches_ ? kFromMemory : form_of(columns, count, each, rows),
                    !fetches_ && all_inside(columns, count, rows)};
      columns += count;
      pixels = max_of(pixels, pass[2].count);
    }
    block_.pitch = residue.line * from_[1];
    block_.w_step = residue.tap_step * down.w_step * kernel().row_weights();
    block_.out_pitch = residue.step * down.out_step * to_[1];
    R* const out = out_ + (slabs.out_first + slab * slabs.out_step) * to_[0] +
                   (down.out_first + (residue.first + m * residue.step) * down.out_step) * to_[1];
    // Weights of a group's channels are many: they stay in the cache for a row of pixels.
    // Residues take turns as soon as a call has some work: results are written as they lie, what is read is still near.
    constexpr i64 kCall = 16;
    const i64 step = runs_ ? units_at_once() : 1;
    const i64 together = !runs_ ? 2 : phases > 1 ? max_of<i64>(kCall / units_, 1) : pixels;
    with_rows<kMostRows>(rows, [&](auto row_count) {
      for (i64 u = 0; u < units_; u += step) {
        for (i64 i = 0; i < pixels; i += together) {
          for (i64 f = 0; f < phases; ++f) pixels_at<row_count.value>(across_[f], i, together, out, u);
        }
      }
    });
  }

  /// `count` results from i on, together if all their taps are inside.
  template <int kRows>
  void pixels_at(const Across& across, i64 i, i64 count, R* out, i64 unit) {
    const Pass& p = across.pass;
    const i64 end = min_of(i + count, p.count), reach = (p.taps - 1) * p.dilation;
    block_.x_pixel = p.stride * from_[2];
    block_.out_pixel = p.out_step * to_[2];
    if (fetches_) {
      constexpr i64 kBytes = 512;  // of a line: as far ahead as memory takes
      const i64 fresh = min_of(p.stride, p.taps),
                prefetch = ceil_div(kBytes, block_.x_pixel * static_cast<i64>(sizeof(S)));
      block_.next = across.columns + (p.taps - fresh) * across.each;
      block_.next_end = across.columns + p.taps * across.each;
      block_.x_prefetch = prefetch * block_.x_pixel;
      block_.out_prefetch = prefetch * block_.out_pixel;
    }
    const i64 first = p.first + i * p.stride;
    const bool both =
        kMostPixels == 2 && !runs_ && end - i == 2 && first >= 0 && first + p.stride + reach < source_.size[2];
    for (i64 some = both ? 2 : 1; i < end; i += some) {
      const i64 at = p.first + i * p.stride;
      Range taps{0, p.taps};
      block_.run = 1;
      if (at < 0 || at + reach >= source_.size[2]) {
        taps = inside(at, p.dilation, source_.size[2], p.taps);
      } else if (runs_) {
        block_.run = min_of(end - i, (source_.size[2] - 1 - reach - at) / p.stride + 1);
      }
      if (runs_) some = block_.run;
      kernel().template pixels<kRows>(across, taps, both, x_ + at * from_[2] + unit * kUnit,
                                      out + (p.out_first + i * p.out_step) * to_[2] + unit * kUnit, unit);
    }
  }

 private:
  Kernel& kernel() { return static_cast<Kernel&>(*this); }

 protected:
  const Depthwise& job_;
  const ConvShape& s_;
  const bool data_, weights_only_, runs_;  // runs of pixels are computed at once
  i64 taps_, unit_, units_ = 0, channel_ = 0, channels_ = 0, taken_ = -1;
  const i64 *from_, *to_;
  StencilSource source_{};
  V* vectors_;  // weights, or their sums, unit_ of each unit
  TapColumn* columns_;
  Across* across_;
  i64* offsets_;
  const S* x_ = nullptr;
  R* out_ = nullptr;  // dy for weights, which is not written
  bool fetches_;
  Block<S> block_{};
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
