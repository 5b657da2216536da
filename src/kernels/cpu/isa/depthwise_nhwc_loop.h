// Loop over the pixels of NHWC depthwise convolutions: pieces, phases, blocks of vertically adjacent rows and the
// pixels of a row, for kernels that compute the results of a block from a list of columns of taps.
// SPDX-License-Identifier: MIT
#pragma once
#include "base/math.h"
#include "kernels/cpu/caches.h"
#include "kernels/cpu/isa/depthwise_nhwc_filters.h"
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

/// What holds for all pieces of a job. A unit is kUnit channels; its weights, or their sums, are `unit` vectors. S:
/// type of the source; R: type of the results, see Results.
template <class S, class R, int kUnit>
struct NhwcPlan {
  const Depthwise& job;
  const ConvShape& s;
  const bool backward_data, weights_only;
  const bool computes_runs;  // a call of the tiles computes a run of pixels
  const i64 taps, unit;
  const i64 result_bytes;  // per element
  const i64 *source_strides, *result_strides;
  bool non_temporal = false, prefetches = false;

  NhwcPlan(const Depthwise& depthwise, i64 unit_vectors)
      : job(depthwise),
        s(depthwise.shape),
        backward_data(depthwise.direction == ConvDirection::kBackwardData),
        weights_only(depthwise.direction == ConvDirection::kBackwardWeights),
        computes_runs(s.c == 1 || depthwise.path == DepthwisePath::kNhwcGroupedDot),
        taps(s.taps[0] * s.taps[1] * s.taps[2]),
        unit(unit_vectors),
        result_bytes(Results<R>::element_bytes(job.result_type)),
        source_strides(backward_data ? s.y_d : s.x_d),
        result_strides(backward_data ? s.x_d : s.y_d) {
    non_temporal = writes_non_temporal();
    prefetches = computes_runs && bytes_moved() > 3 * kResultCaches && fetches_streams();  // exceeds the caches
  }

  i64 most_units() const { return ceil_div(job.blocks_at_once() * job.channel_block(), kUnit); }
  i64 most_term_vectors() const {
    return job.direction == ConvDirection::kForward ? most_units() * (2 * kUnit / kLanes<Sum<S>>) : 0;
  }

 private:
  /// Bytes of source and result of the whole problem.
  i64 bytes_moved() const {
    const i64 in = s.in[0] * s.in[1] * s.in[2], out = s.out[0] * s.out[1] * s.out[2];
    const i64 source = backward_data ? out : in, result = in + out - source;
    return s.n * s.groups * s.c * (source * static_cast<i64>(sizeof(S)) + result * result_bytes);
  }
  /// Whether stores are non-temporal: beta is 0, results are whole aligned cache lines, and source and result exceed
  /// the caches.
  bool writes_non_temporal() const {
    const i64 steps = result_strides[0] | result_strides[1] | result_strides[2] | (backward_data ? s.x_n : s.y_n);
    const bool whole_lines = kVectorBytes == 64 && kUnit * result_bytes % 64 == 0;
    return whole_lines && !weights_only && job.beta == 0 && steps * result_bytes % 64 == 0 &&
           reinterpret_cast<std::uintptr_t>(job.result) % 64 == 0 && bytes_moved() > kResultCaches / 2;
  }
};

/// The arrays of a call in scratch memory.
template <class V>
struct NhwcScratch {
  V* vectors;  // weights or their sums, plan.unit vectors per unit
  V* terms;    // scale and bias of the epilogue, per vector of channels
  TapColumn* columns;
  ColumnPhase* phases;
  i64* offsets;
  std::size_t bytes;

  template <class Plan>
  NhwcScratch(const Plan& plan, void* memory) {
    const ConvShape& s = plan.s;
    vectors = static_cast<V*>(memory);
    terms = vectors + plan.most_units() * plan.unit;
    columns = reinterpret_cast<TapColumn*>(terms + plan.most_term_vectors());
    phases = reinterpret_cast<ColumnPhase*>(columns + plan.taps);
    offsets = reinterpret_cast<i64*>(phases + pass_count(s, plan.job.direction, 2));
    bytes = static_cast<std::size_t>(reinterpret_cast<char*>(offsets + s.taps[2]) - static_cast<char*>(memory));
  }
};

/// The channels at hand: some blocks of Depthwise::channel_block().
struct SelectedChannels {
  i64 first = 0, count = 0;
  i64 units = 0;
  i64 block = -1;
};

/// Kernel provides pack(), called after select_blocks(); row_weights(), the vectors of weights between two rows of
/// taps; and pixels<kRows>(phase, taps, two_pixels, x, out, unit), which sums the taps of a range for block_.run
/// pixels, or for one pixel or two horizontally adjacent ones, from a unit of kUnit channels on.
template <class Kernel, class S, class R, int kUnit>
class PixelLoop {
 protected:
  using T = Sum<S>;
  using V = Vec<T>;
  using Plan = NhwcPlan<S, R, kUnit>;
  using Out = typename Results<R>::Pointer;
  /// Horizontally adjacent pixels per tile of groups: sums and operands must fit in the registers.
  static constexpr int kMostPixels = 2 * kMostRows + 4 <= kRegisters ? 2 : 1;
  static constexpr int kN = kLanes<T>;
  static constexpr int kTermsPerUnit = 2 * kUnit / kN;  // vectors

  PixelLoop(const Depthwise& job, i64 unit, void* memory)
      : plan_(job, unit), scratch_(plan_, memory), filters_(job), epilogue_(job), s_(job.shape) {
    for (int d = 0; d < kSpatial; ++d) source_.size[d] = plan_.backward_data ? s_.out[d] : s_.in[d];
    source_.step[0] = plan_.source_strides[0];
    source_.step[1] = plan_.source_strides[1];
    source_.column = scratch_.offsets;
    block_.alpha = static_cast<T>(job.alpha);
    block_.beta = static_cast<T>(job.beta);
    block_.range = epilogue_.range;
    block_.non_temporal = plan_.non_temporal;
  }
  ~PixelLoop() {
    if (block_.non_temporal) finish_non_temporal_stores();
  }

  static std::size_t bytes(const Depthwise& job, i64 unit) { return NhwcScratch<V>(Plan(job, unit), nullptr).bytes; }

  void piece(i64 index) {
    const Depthwise& job = plan_.job;
    const bool data = plan_.backward_data;
    const i64* size = data ? s_.in : s_.out;
    const i64 row_blocks = ceil_div(size[1], kRowBlock), part = index % row_blocks, slab = index / row_blocks % size[0];
    const i64 n = index / (row_blocks * size[0]) % s_.n;
    select_blocks(index / (row_blocks * size[0] * s_.n), 1);
    x_ = static_cast<const S*>(data ? job.y : job.x) + n * (data ? s_.y_n : s_.x_n) + channels_.first;
    out_ = Results<R>::at(job.result_type, job.result) + n * (data ? s_.x_n : s_.y_n) + channels_.first;
    const i64 phases = pass_count(s_, job.direction, 0), f0 = slab % phases;
    for (i64 f1 = 0; f1 < pass_count(s_, job.direction, 1); ++f1) run_phase(f0, f1, slab / phases, part, row_blocks);
  }

  /// Units of channels that are computed for a row of pixels before the next ones. Small images: 512 bytes, which stay
  /// in the first-level cache for all taps of dimension 2. Otherwise whole pixels, which are read faster than parts.
  i64 units_at_once() const {
    constexpr i64 kSmall = 256 << 10, kUnitBytes = 512;
    const i64 bytes = source_.size[1] * source_.size[2] * channels_.count * static_cast<i64>(sizeof(S));
    return plan_.weights_only || bytes > kSmall ? channels_.units : kUnitBytes / kVectorBytes;
  }

  /// Selects `blocks` blocks of channels and packs their weights.
  void select_blocks(i64 block, i64 blocks) {
    if (block == channels_.block) return;
    const i64 size = plan_.job.channel_block();
    channels_.block = block;
    channels_.first = block * size;
    channels_.count = min_of(blocks * size, s_.groups * s_.c - channels_.first);
    channels_.units = ceil_div(channels_.count, kUnit);
    if (epilogue_) {
      for (i64 c = 0; c < channels_.count; c += kN) {
        V* const terms = scratch_.terms + 2 * (c / kN);
        epilogue_.load(channels_.first + c, min_of<i64>(kN, channels_.count - c), terms[0], terms[1]);
      }
    }
    if (!plan_.weights_only) kernel().pack();
  }

  void run_phase(i64 f0, i64 f1, i64 slab, i64 part, i64 parts) {
    const Pass down = pass_of(s_, plan_.job.direction, 1, f1);
    for (i64 a = 0; a < residue_count(down); ++a) {
      const Residue residue = residue_of(down, a);
      i64 m = residue.count * part / parts, rows = 0;
      for (const i64 end = residue.count * (part + 1) / parts; m < end; m += rows) {
        rows = tile_rows(end - m, kMostRows);
        row_block(pass_of(s_, plan_.job.direction, 0, f0), down, residue, slab, m, rows);
      }
    }
  }

  /// Computes `rows` results of each column. All phases of the columns run together: they read the same lines.
  void row_block(const Pass& slabs, const Pass& down, const Residue& residue, i64 slab, i64 m, i64 rows) {
    const i64 phases = pass_count(s_, plan_.job.direction, 2);
    TapColumn* columns = scratch_.columns;
    i64 pixels = 0;
    for (i64 f = 0; f < phases; ++f) {
      const Pass pass[kSpatial] = {slabs, down, pass_of(s_, plan_.job.direction, 2, f)};
      for (i64 t = 0; t < pass[2].taps; ++t) scratch_.offsets[t] = t * pass[2].dilation * plan_.source_strides[2];
      const i64 count = list_columns(pass, residue, slab, m, rows, source_, s_.taps, columns);
      const i64 columns_per_tap = pass[2].taps > 0 ? count / pass[2].taps : 0;
      scratch_.phases[f] = {pass[2], columns, columns_per_tap,
                            plan_.prefetches ? kFromMemory : form_of(columns, count, columns_per_tap, rows),
                            !plan_.prefetches && all_inside(columns, count, rows)};
      columns += count;
      pixels = max_of(pixels, pass[2].count);
    }
    block_.pitch = residue.line * plan_.source_strides[1];
    block_.w_step = residue.tap_step * down.w_step * kernel().row_weights();
    block_.out_pitch = residue.step * down.out_step * plan_.result_strides[1];
    const Out out = out_ + (slabs.out_first + slab * slabs.out_step) * plan_.result_strides[0] +
                    (down.out_first + (residue.first + m * residue.step) * down.out_step) * plan_.result_strides[1];
    // Groups have many weights, which stay in the cache for a row of pixels. Phases alternate as soon as a call has
    // kCall vectors: results are then stored in order, and the source is still in the cache.
    constexpr i64 kCall = 16;
    const i64 step = plan_.computes_runs ? units_at_once() : 1;
    const i64 pixels_at_once = !plan_.computes_runs ? 2 : phases > 1 ? max_of<i64>(kCall / channels_.units, 1) : pixels;
    with_rows<kMostRows>(rows, [&](auto row_count) {
      for (i64 u = 0; u < channels_.units; u += step) {
        for (i64 i = 0; i < pixels; i += pixels_at_once) {
          for (i64 f = 0; f < phases; ++f) pixels_at<row_count.value>(scratch_.phases[f], i, pixels_at_once, out, u);
        }
      }
    });
  }

  /// Computes `count` results from i on, in runs where all their taps are inside.
  template <int kRows>
  void pixels_at(const ColumnPhase& phase, i64 i, i64 count, Out out, i64 unit) {
    const Pass& p = phase.pass;
    const i64 end = min_of(i + count, p.count), reach = (p.taps - 1) * p.dilation;
    block_.x_pixel = p.stride * plan_.source_strides[2];
    block_.out_pixel = p.out_step * plan_.result_strides[2];
    if (plan_.prefetches) {
      constexpr i64 kBytes = 512;  // prefetch distance within a line
      const i64 new_taps = min_of(p.stride, p.taps);
      const i64 prefetch = ceil_div(kBytes, block_.x_pixel * static_cast<i64>(sizeof(S)));
      block_.next = phase.columns + (p.taps - new_taps) * phase.columns_per_tap;
      block_.next_end = phase.columns + p.taps * phase.columns_per_tap;
      block_.x_prefetch = prefetch * block_.x_pixel;
      block_.out_prefetch = prefetch * block_.out_pixel;
    }
    const i64 first = p.first + i * p.stride;
    const bool two_pixels = kMostPixels == 2 && !plan_.computes_runs && end - i == 2 && first >= 0 &&
                            first + p.stride + reach < source_.size[2];
    for (i64 step = two_pixels ? 2 : 1; i < end; i += step) {
      const i64 position = p.first + i * p.stride;
      Range taps{0, p.taps};
      block_.run = 1;
      if (position < 0 || position + reach >= source_.size[2]) {
        taps = inside(position, p.dilation, source_.size[2], p.taps);
      } else if (plan_.computes_runs) {
        block_.run = min_of(end - i, (source_.size[2] - 1 - reach - position) / p.stride + 1);
      }
      if (plan_.computes_runs) step = block_.run;
      if (epilogue_) block_.terms = scratch_.terms + unit * kTermsPerUnit;
      kernel().template pixels<kRows>(phase, taps, two_pixels, x_ + position * plan_.source_strides[2] + unit * kUnit,
                                      out + (p.out_first + i * p.out_step) * plan_.result_strides[2] + unit * kUnit,
                                      unit);
    }
  }

 private:
  Kernel& kernel() { return static_cast<Kernel&>(*this); }

 protected:
  const Plan plan_;
  const NhwcScratch<V> scratch_;
  const ChannelFilters<S> filters_;
  const DepthwiseEpilogue<T> epilogue_;
  const ConvShape& s_;
  StencilSource source_{};
  SelectedChannels channels_;
  const S* x_ = nullptr;
  Out out_{};  // dy for weights, which is not written
  Block<S> block_{};
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
