// Packs the weights of direct convolutions: [tap][dot operand of input channels][output channel].
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/direct_stages.h"
#include "kernels/cpu/isa/dot_operands.h"
#include "kernels/cpu/stencil.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

/// Weights as rows of vectors: one lane per output channel. From storage type S to elements E.
template <class E, class S>
class LaneRows {
  using W = DotOperand<E>;
  static constexpr int kN = kLanes<W>, kGroup = kGroupOf<E>;

 public:
  LaneRows(char* memory, i64 w_lane) : rows_(reinterpret_cast<W*>(memory)), w_lane_(w_lane) {}

  Vec<W> row(i64 index) const { return load(rows_ + index * kN); }

  /// Row first + e is element e of the lanes, for e < count; `step` elements between a lane's elements.
  void transpose_lanes(const S* src, i64 lanes, i64 step, i64 count, i64 first) const {
    W* rows = rows_ + first * kN;
    if (step == 1 && w_lane_ != 1) {
      for (i64 e = 0; e < count; e += kN) {
        const int width = static_cast<int>(min_of<i64>(kN, count - e));
        Vec<W> block[kN];
#pragma GCC unroll 16
        for (int j = 0; j < kN; ++j) block[j] = j < lanes ? fetch(src + j * w_lane_ + e, width) : Vec<W>{};
        transpose(block);
        for (int j = 0; j < width; ++j) store(rows + (e + j) * kN, block[j]);
      }
      return;
    }
    for (i64 e = 0; e < count; ++e) {
      const S* from = src + e * step;
      if (w_lane_ == 1) {
        store(rows + e * kN, fetch(from, static_cast<int>(lanes)));
      } else {
        for (int j = 0; j < kN; ++j) rows[e * kN + j] = j < lanes ? operand(from[j * w_lane_]) : W{};
      }
    }
  }

 private:
  /// A dot operand with one element.
  static W operand(S v) {
    if constexpr (kGroup == 1) {
      return convert<E>(v);
    } else {
      return bits_of<E>(v);
    }
  }

  static Vec<W> fetch(const S* p, int n) {
    if constexpr (kGroup > 1) {
      return load_dot_operands<E>(p, 0, 1, 1, n);
    } else if constexpr (__is_same(E, S)) {
      return n == kN ? load(p) : load_lanes(p, 0, n);
    } else {
      return load_widened(p, n);
    }
  }

  W* const rows_;
  const i64 w_lane_;
};

/// Packs one panel of a group's weights from storage type S to elements E.
template <class E, class S>
class Panel {
 public:
  Panel(const Direct& job, i64 panel, const char* weights, char* packed, char* transposed, i64 part, i64 parts)
      : job_(job), rows_(transposed, job.w_lane), packed_(packed) {
    const i64 blocks = ceil_div(job.from.channels, kPackChannels);
    channel_begin_ = blocks * part / parts * kPackChannels;
    channel_end_ = min_of(blocks * (part + 1) / parts * kPackChannels, job.from.channels);
    const ConvShape& s = job.shape;
    const i64 start = job.panel_start(panel);
    vectors_ = job.panel_start(panel + 1) - start;
    first_lane_ = start * kN;
    weights_ = reinterpret_cast<const S*>(weights);
    lanes_ = job.to.channels - first_lane_;
    steps_ = s.taps[0] * s.taps[1] * job.row_steps;
    // taps() if the taps of a filter are contiguous, else 0.
    tap_run_ = 1;
    for (int d = kSpatial - 1; d >= 0; --d) {
      if (s.taps[d] > 1 && s.w_d[d] != tap_run_) tap_run_ = 0;
      tap_run_ *= s.taps[d];
    }
  }

  void pack() {
    const bool has_shared_operands = job_.merged && job_.from.channels % kGroup != 0;
    if (has_shared_operands || job_.diagonal_groups > 1) {
      pack_elements();
    } else {
      pack_vectors();
    }
    if constexpr (__is_same(E, std::int8_t)) {
      if (job_.unit.shifts()) add_zero_point();
    }
  }

 private:
  using W = DotOperand<E>;
  static constexpr int kN = kLanes<W>, kGroup = kGroupOf<E>;

  void pack_vectors() {
    for (i64 v = 0; v < vectors_; ++v) {
      const i64 lanes = min_of<i64>(kN, lanes_ - v * kN);
      const S* src = weights_ + (first_lane_ + v * kN) * job_.w_lane;
      if (job_.w_depth == 1 || tap_run_ == 0) {
        pack_tap_by_tap(src, lanes, v);
      } else {
        pack_contiguous_taps(src, lanes, v);
      }
    }
  }

  /// Vector v of a step of depth.
  W* packed_at(i64 step, i64 v) const { return reinterpret_cast<W*>(packed_) + (step * vectors_ + v) * kN; }

  /// Stores the steps of a tap. Its channels are in rows_, from `row` on and `stride` rows apart.
  void store_tap(i64 tap, i64 channel, i64 channels, i64 row, i64 stride, i64 v) {
    for (i64 c = 0; c < channels; c += kGroup) {
      Vec<W> operands = rows_.row(row + c * stride);
      if constexpr (kGroup > 1) {
        for (int g = 1; g < kGroup && c + g < channels; ++g)
          operands |= rows_.row(row + (c + g) * stride) << (g * 8 * static_cast<int>(sizeof(E)));
      }
      store(packed_at(tap * job_.tap_steps + (channel + c) / kGroup, v), operands);
    }
  }

  /// Calls visit(packed tap, offset in the weights) for each tap: backward data reverses the order.
  template <class Visit>
  void each_packed_tap(const Visit& visit) const {
    i64 tap = 0;
    each_tap(job_.shape, [&](i64 offset) {
      visit(job_.backward ? job_.taps() - 1 - tap : tap, offset);
      ++tap;
    });
  }

  /// Transposes the channels of one tap at a time.
  void pack_tap_by_tap(const S* src, i64 lanes, i64 v) {
    if constexpr (kGroup > 1 && __is_same(E, S)) {
      if (job_.w_depth == 1) return pack_contiguous_channels(src, lanes, v);
    }
    each_packed_tap([&](i64 tap, i64 offset) {
      for (i64 c = channel_begin_; c < channel_end_; c += kDirectTransposeDepth) {
        const i64 some = min_of(kDirectTransposeDepth, channel_end_ - c);
        rows_.transpose_lanes(src + offset + c * job_.w_depth, lanes, job_.w_depth, some, 0);
        store_tap(tap, c, some, 0, 1, v);
      }
    });
  }

  /// Channels are contiguous, so that the source already has dot operands.
  void pack_contiguous_channels(const S* src, i64 lanes, i64 v) {
    constexpr i64 kBytes = kN * sizeof(W);
    const i64 begin = channel_begin_ * static_cast<i64>(sizeof(S)), line = channel_end_ * static_cast<i64>(sizeof(S));
    each_packed_tap([&](i64 tap, i64 offset) {
      for (i64 byte = begin; byte < line; byte += kBytes) {
        const i64 bytes = min_of(kBytes, line - byte);
        const char* const from = reinterpret_cast<const char*>(src + offset) + byte;
        Vec<W> block[kN];
#pragma GCC unroll 16
        for (int j = 0; j < kN; ++j) {
          block[j] = j < lanes ? load_bytes<W>(from + j * job_.w_lane * static_cast<i64>(sizeof(S)), bytes) : Vec<W>{};
        }
        transpose(block);
        const i64 first = tap * job_.tap_steps + byte / static_cast<i64>(sizeof(W));
        for (i64 i = 0; i * static_cast<i64>(sizeof(W)) < bytes; ++i) store(packed_at(first + i, v), block[i]);
      }
    });
  }

  /// The taps of a filter are contiguous: transposes all taps of some channels at once.
  void pack_contiguous_taps(const S* src, i64 lanes, i64 v) {
    const i64 taps = job_.taps(), chunk = max_of<i64>(kDirectTransposeDepth / taps, 1) * kGroup;
    for (i64 c = channel_begin_; c < channel_end_; c += chunk) {
      const i64 some = min_of(chunk, channel_end_ - c);
      const S* from = src + c * job_.w_depth;
      if (job_.w_depth == taps) {
        rows_.transpose_lanes(from, lanes, 1, some * taps, 0);
      } else {
        for (i64 i = 0; i < some; ++i) rows_.transpose_lanes(from + i * job_.w_depth, lanes, 1, taps, i * taps);
      }
      for (i64 t = 0; t < taps; ++t) store_tap(job_.backward ? taps - 1 - t : t, c, some, t, taps, v);
    }
  }

  /// Element by element: where channels of neighbouring taps share dot operands, and for block-diagonal groups, whose
  /// lanes have weights for the channels of their own group only.
  void pack_elements() {
    const ConvShape& shape = job_.shape;
    const i64 taps = shape.taps[2], channels = job_.from.channels;
    const i64 tap_channels = job_.merged ? channels : job_.tap_steps * kGroup;  // else a tap begins with a step
    const i64 lanes = job_.to.channels / job_.diagonal_groups, depth = channels / job_.diagonal_groups;  // of a group
    const i64 panel_lanes = min_of(vectors_ * kN, lanes_);
    for (i64 v = 0; v < vectors_; ++v)
      for (i64 s = 0; s < steps_; ++s) store(packed_at(s, v), Vec<W>{});
    for (i64 group = first_lane_ / lanes; group * lanes < first_lane_ + panel_lanes; ++group) {
      const i64 group_start = group * lanes - first_lane_;  // lane of the panel
      const i64 from = max_of<i64>(group_start, 0), end = min_of(group_start + lanes, panel_lanes);
      const S* const src = weights_ + group * (shape.k / job_.diagonal_groups) * shape.w_k - group_start * job_.w_lane;
      each_packed_tap([&](i64 tap, i64 offset) {
        for (i64 c = 0; c < depth; ++c) {
          const i64 e = tap % taps * tap_channels + group * depth + c;
          // The vectors of a step are contiguous, and so are their lanes.
          E* const packed = reinterpret_cast<E*>(packed_at(tap / taps * job_.row_steps + e / kGroup, 0)) + e % kGroup;
          const S* const line = src + offset + c * job_.w_depth;
          for (i64 j = from; j < end; ++j) packed[j * kGroup] = convert<E>(line[j * job_.w_lane]);
        }
      });
    }
  }

  /// Appends the zero point of each lane: 128 times the sum of its weights.
  void add_zero_point() {
    for (i64 v = 0; v < vectors_; ++v) {
      Vec<std::int32_t> sum{};
      for (i64 s = 0; s < steps_; ++s) {
        const Vec<std::int32_t> operands = load(packed_at(s, v));
        for (int g = 0; g < 4; ++g) sum += operands << (24 - 8 * g) >> 24;
      }
      store(packed_at(steps_, v), sum << 7);
    }
  }

  const Direct& job_;
  const LaneRows<E, S> rows_;  // in scratch
  char* const packed_;
  const S* weights_;                 // of the group
  i64 vectors_;                      // of the panel
  i64 first_lane_, lanes_;           // the panel's first output channel; channels of the group from there on
  i64 steps_;                        // of depth
  i64 tap_run_;                      // see the constructor
  i64 channel_begin_, channel_end_;  // of the part that is packed
};

}  // namespace

void pack_panel(const Direct& job, i64 panel, const char* weights, char* packed, char* transposed, i64 part,
                i64 parts) {
  const auto pack = [&]<class E, class S>(E, S) {
    Panel<E, S>(job, panel, weights, packed, transposed, part, parts).pack();
  };
  const DirectMath math = job.unit.math;
  const DataType type = job.weight_type;
  if constexpr (kPacksProducts) {
    if (math == DirectMath::kBf16) return pack(Bfloat16{}, Bfloat16{});
    if (math == DirectMath::kInt8) return pack(std::int8_t{}, std::int8_t{});
  }
  if (math == DirectMath::kInt16) return pack(std::int16_t{}, std::int8_t{});
  if (math == DirectMath::kDouble) return pack(double{}, double{});
  if (type == DataType::kHalf) return pack(float{}, Half{});
  if (type == DataType::kBFloat16) return pack(float{}, Bfloat16{});
  pack(float{}, float{});
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
