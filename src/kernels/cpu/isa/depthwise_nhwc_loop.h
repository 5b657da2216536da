// Loop over the pixels of NHWC depthwise convolutions: pieces, phases, blocks of vertically adjacent rows and the
// pixels of a row, for kernels that compute the results of a block from a list of columns of taps.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/caches.h"
#include "kernels/cpu/isa/depthwise_nhwc_tile.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// One phase of dimension 2, with the columns of its taps.
struct ColumnPhase {
  Pass pass;
  const TapColumn* columns;
  i64 columns_per_tap;  // per tap of dimension 2
  Form form;
  bool inside;  // no tap of the current rows is above or below the source; false for kFromMemory
};

/// Kernel provides pack(), called after select_blocks(); row_weights(), the vectors of weights between two rows of
/// taps; and pixels<kRows>(phase, taps, two_pixels, x, out, unit), which sums the taps of a range for block_.run
/// pixels, or for one pixel or two horizontally adjacent ones, from a unit of kUnit channels on. S: type of the source;
/// R: type of the results.
template <class Kernel, class S, class R, int kUnit>
class PixelLoop {
 protected:
  using T = Sum<S>;
  using V = Vec<T>;
  /// Horizontally adjacent pixels per tile of groups: sums and operands must fit in the registers.
  static constexpr int kMostPixels = 2 * kMostRows + 4 <= kRegisters ? 2 : 1;
  static constexpr int kN = kLanes<T>;
  static constexpr bool kWholeLines = kVectorBytes == 64 && kUnit * sizeof(R) % 64 == 0;

  PixelLoop(const Depthwise& job, i64 unit, void* scratch)
      : job_(job),
        s_(job.shape),
        backward_data_(job.direction == ConvDirection::kBackwardData),
        weights_only_(job.direction == ConvDirection::kBackwardWeights),
        computes_runs_(s_.c == 1 || job.path == DepthwisePath::kNhwcGroupedDot),
        unit_(unit) {
    taps_ = s_.taps[0] * s_.taps[1] * s_.taps[2];
    source_strides_ = backward_data_ ? s_.y_d : s_.x_d;
    result_strides_ = backward_data_ ? s_.x_d : s_.y_d;
    for (int d = 0; d < kSpatial; ++d) source_.size[d] = backward_data_ ? s_.out[d] : s_.in[d];
    source_.step[0] = source_strides_[0];
    source_.step[1] = source_strides_[1];
    vectors_ = static_cast<V*>(scratch);
    columns_ = reinterpret_cast<TapColumn*>(vectors_ + most_units(job) * unit_);
    phases_ = reinterpret_cast<ColumnPhase*>(columns_ + taps_);
    offsets_ = reinterpret_cast<i64*>(phases_ + pass_count(s_, job.direction, 2));
    source_.column = offsets_;
    block_.alpha = static_cast<T>(job.alpha);
    block_.beta = static_cast<T>(job.beta);
    block_.non_temporal = writes_non_temporal();
    prefetches_ = computes_runs_ && bytes_moved() > 3 * kResultCaches && fetches_streams();  // exceeds the caches
  }
  ~PixelLoop() {
#if defined(__AVX512F__)
    if (block_.non_temporal)
      _mm_sfence();  // orders the stores before the end of the task, after which other threads read
#endif
  }

  static std::size_t bytes(const Depthwise& job, i64 unit) {
    const i64 taps = job.shape.taps[0] * job.shape.taps[1] * job.shape.taps[2];
    return static_cast<std::size_t>(most_units(job) * unit) * sizeof(V) +
           static_cast<std::size_t>(taps) * sizeof(TapColumn) + static_cast<std::size_t>(job.shape.taps[2]) * 8 +
           static_cast<std::size_t>(pass_count(job.shape, job.direction, 2)) * sizeof(ColumnPhase);
  }

  void piece(i64 index) {
    const i64* size = backward_data_ ? s_.in : s_.out;
    const i64 row_blocks = ceil_div(size[1], kRowBlock), part = index % row_blocks, slab = index / row_blocks % size[0];
    const i64 n = index / (row_blocks * size[0]) % s_.n;
    select_blocks(index / (row_blocks * size[0] * s_.n), 1);
    x_ = static_cast<const S*>(backward_data_ ? job_.y : job_.x) + n * (backward_data_ ? s_.y_n : s_.x_n) + channel_;
    out_ = static_cast<R*>(job_.result) + n * (backward_data_ ? s_.x_n : s_.y_n) + channel_;
    const i64 phases = pass_count(s_, job_.direction, 0), f0 = slab % phases;
    for (i64 f1 = 0; f1 < pass_count(s_, job_.direction, 1); ++f1) run_phase(f0, f1, slab / phases, part, row_blocks);
  }

  static i64 most_units(const Depthwise& job) { return ceil_div(job.blocks_at_once() * job.channel_block(), kUnit); }

  /// Units of channels that are computed for a row of pixels before the next ones. Small images: 512 bytes, which stay
  /// in the first-level cache for all taps of dimension 2. Otherwise whole pixels, which are read faster than parts.
  i64 units_at_once() const {
    constexpr i64 kSmall = 256 << 10, kUnitBytes = 512;
    const i64 bytes = source_.size[1] * source_.size[2] * channels_ * static_cast<i64>(sizeof(S));
    return weights_only_ || bytes > kSmall ? units_ : kUnitBytes / kVectorBytes;
  }

  /// Bytes of source and result of the whole problem.
  i64 bytes_moved() const {
    const i64 in = s_.in[0] * s_.in[1] * s_.in[2], out = s_.out[0] * s_.out[1] * s_.out[2];
    const i64 source = backward_data_ ? out : in, result = in + out - source;
    return s_.n * s_.groups * s_.c * (source * static_cast<i64>(sizeof(S)) + result * static_cast<i64>(sizeof(R)));
  }
  /// Whether stores are non-temporal: beta is 0, results are whole aligned cache lines, and source and result exceed
  /// the caches.
  bool writes_non_temporal() const {
    const i64 steps = result_strides_[0] | result_strides_[1] | result_strides_[2] | (backward_data_ ? s_.x_n : s_.y_n);
    return kWholeLines && !weights_only_ && job_.beta == 0 && steps * static_cast<i64>(sizeof(R)) % 64 == 0 &&
           reinterpret_cast<std::uintptr_t>(job_.result) % 64 == 0 && bytes_moved() > kResultCaches / 2;
  }

  /// Selects `blocks` blocks of channels and packs their weights.
  void select_blocks(i64 block, i64 blocks) {
    if (block == current_block_) return;
    current_block_ = block;
    channel_ = block * job_.channel_block();
    channels_ = min_of(blocks * job_.channel_block(), s_.groups * s_.c - channel_);
    units_ = ceil_div(channels_, kUnit);
    if (!weights_only_) kernel().pack();
  }

  /// Loads the weights of channels [first, first + count) as vectors of kN, ordered by tap and channel of the group.
  void load_weights(i64 first, i64 count, V* vectors) const {
    const S* w = static_cast<const S*>(job_.w);
    if (s_.c == 1 && taps_packed()) {
      for (i64 t = 0; t < taps_; t += kN) {
        transpose_from(w + first * s_.w_k + t, count, min_of<i64>(kN, taps_ - t), vectors + t);
      }
      return;
    }
    i64 filter_offset[kN];
    for (i64 l = 0; l < count; ++l) filter_offset[l] = place_of(first + l);
    const i64 step = backward_data_ ? s_.w_k : s_.w_c;
    T* to = reinterpret_cast<T*>(vectors);
    each_tap([&](i64 offset) {
      for (i64 j = 0; j < s_.c; ++j, offset += step, to += kN) {
        for (i64 l = 0; l < kN; ++l) to[l] = l < count ? widen(w[offset + filter_offset[l]]) : T{};
      }
    });
  }
  /// Offset of the first weight of a channel of the result.
  i64 place_of(i64 channel) const {
    return backward_data_ ? channel / s_.c * s_.c * s_.w_k + channel % s_.c * s_.w_c : channel * s_.w_k;
  }
  bool taps_packed() const {
    const i64 *taps = s_.taps, *steps = s_.w_d;
    return (taps[2] == 1 || steps[2] == 1) && (taps[1] == 1 || steps[1] == taps[2]) &&
           (taps[0] == 1 || steps[0] == taps[1] * taps[2]);
  }
  /// Loads `taps` taps of `channels` filters as vectors of channels.
  void transpose_from(const S* w, i64 channels, i64 taps, V* to) const {
    if (taps == 1) {  // the last tap of 3x3, 5x5 and 7x7 with vectors of 4 and 8 lanes
      T* const lanes = reinterpret_cast<T*>(to);
      for (i64 l = 0; l < kN; ++l) lanes[l] = l < channels ? widen(w[l * s_.w_k]) : T{};
      return;
    }
    with_taps_of_vector(taps, [&](const auto& access) {
      V rows[kN];
#pragma GCC unroll 16
      for (i64 l = 0; l < kN; ++l) rows[l] = l < channels ? access(w + l * s_.w_k) : V{};
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

  void run_phase(i64 f0, i64 f1, i64 slab, i64 part, i64 parts) {
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

  /// Computes `rows` results of each column. All phases of the columns run together: they read the same lines.
  void row_block(const Pass& slabs, const Pass& down, const Residue& residue, i64 slab, i64 m, i64 rows) {
    const i64 phases = pass_count(s_, job_.direction, 2);
    TapColumn* columns = columns_;
    i64 pixels = 0;
    for (i64 f = 0; f < phases; ++f) {
      const Pass pass[kSpatial] = {slabs, down, pass_of(s_, job_.direction, 2, f)};
      for (i64 t = 0; t < pass[2].taps; ++t) offsets_[t] = t * pass[2].dilation * source_strides_[2];
      const i64 count = list_columns(pass, residue, slab, m, rows, source_, s_.taps, columns);
      const i64 columns_per_tap = pass[2].taps > 0 ? count / pass[2].taps : 0;
      phases_[f] = {pass[2], columns, columns_per_tap,
                    prefetches_ ? kFromMemory : form_of(columns, count, columns_per_tap, rows),
                    !prefetches_ && all_inside(columns, count, rows)};
      columns += count;
      pixels = max_of(pixels, pass[2].count);
    }
    block_.pitch = residue.line * source_strides_[1];
    block_.w_step = residue.tap_step * down.w_step * kernel().row_weights();
    block_.out_pitch = residue.step * down.out_step * result_strides_[1];
    R* const out = out_ + (slabs.out_first + slab * slabs.out_step) * result_strides_[0] +
                   (down.out_first + (residue.first + m * residue.step) * down.out_step) * result_strides_[1];
    // Groups have many weights, which stay in the cache for a row of pixels. Phases alternate as soon as a call has
    // kCall vectors: results are then stored in order, and the source is still in the cache.
    constexpr i64 kCall = 16;
    const i64 step = computes_runs_ ? units_at_once() : 1;
    const i64 pixels_at_once = !computes_runs_ ? 2 : phases > 1 ? max_of<i64>(kCall / units_, 1) : pixels;
    with_rows<kMostRows>(rows, [&](auto row_count) {
      for (i64 u = 0; u < units_; u += step) {
        for (i64 i = 0; i < pixels; i += pixels_at_once) {
          for (i64 f = 0; f < phases; ++f) pixels_at<row_count.value>(phases_[f], i, pixels_at_once, out, u);
        }
      }
    });
  }

  /// Computes `count` results from i on, in runs where all their taps are inside.
  template <int kRows>
  void pixels_at(const ColumnPhase& phase, i64 i, i64 count, R* out, i64 unit) {
    const Pass& p = phase.pass;
    const i64 end = min_of(i + count, p.count), reach = (p.taps - 1) * p.dilation;
    block_.x_pixel = p.stride * source_strides_[2];
    block_.out_pixel = p.out_step * result_strides_[2];
    if (prefetches_) {
      constexpr i64 kBytes = 512;  // prefetch distance within a line
      const i64 new_taps = min_of(p.stride, p.taps);
      const i64 prefetch = ceil_div(kBytes, block_.x_pixel * static_cast<i64>(sizeof(S)));
      block_.next = phase.columns + (p.taps - new_taps) * phase.columns_per_tap;
      block_.next_end = phase.columns + p.taps * phase.columns_per_tap;
      block_.x_prefetch = prefetch * block_.x_pixel;
      block_.out_prefetch = prefetch * block_.out_pixel;
    }
    const i64 first = p.first + i * p.stride;
    const bool two_pixels =
        kMostPixels == 2 && !computes_runs_ && end - i == 2 && first >= 0 && first + p.stride + reach < source_.size[2];
    for (i64 step = two_pixels ? 2 : 1; i < end; i += step) {
      const i64 position = p.first + i * p.stride;
      Range taps{0, p.taps};
      block_.run = 1;
      if (position < 0 || position + reach >= source_.size[2]) {
        taps = inside(position, p.dilation, source_.size[2], p.taps);
      } else if (computes_runs_) {
        block_.run = min_of(end - i, (source_.size[2] - 1 - reach - position) / p.stride + 1);
      }
      if (computes_runs_) step = block_.run;
      kernel().template pixels<kRows>(phase, taps, two_pixels, x_ + position * source_strides_[2] + unit * kUnit,
                                      out + (p.out_first + i * p.out_step) * result_strides_[2] + unit * kUnit, unit);
    }
  }

 private:
  Kernel& kernel() { return static_cast<Kernel&>(*this); }

 protected:
  const Depthwise& job_;
  const ConvShape& s_;
  const bool backward_data_, weights_only_, computes_runs_;  // per call a run of pixels
  i64 taps_, unit_, units_ = 0, channel_ = 0, channels_ = 0, current_block_ = -1;
  const i64 *source_strides_, *result_strides_;
  StencilSource source_{};
  V* vectors_;  // weights or their sums, unit_ vectors per unit
  TapColumn* columns_;
  ColumnPhase* phases_;
  i64* offsets_;
  const S* x_ = nullptr;
  R* out_ = nullptr;  // dy for weights, which is not written
  bool prefetches_;
  Block<S> block_{};
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
