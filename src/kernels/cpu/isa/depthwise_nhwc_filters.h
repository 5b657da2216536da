// Filters of NHWC kernels as vectors of channels, one per tap and channel of the group: loaded for forward and backward
// data, stored from sums for backward weights.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/isa/depthwise_nhwc_vectors.h"
#include "kernels/cpu/isa/stencil_tile.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// S: the storage type.
template <class S>
class ChannelFilters {
  using T = Sum<S>;
  using V = Vec<T>;
  static constexpr int kN = kLanes<T>;

 public:
  explicit ChannelFilters(const Depthwise& job)
      : job_(job),
        s_(job.shape),
        backward_data_(job.direction == ConvDirection::kBackwardData),
        taps_(s_.taps[0] * s_.taps[1] * s_.taps[2]) {}

  /// Offset of the first weight of a channel of the result.
  i64 offset_of(i64 channel) const {
    return backward_data_ ? channel / s_.c * s_.c * s_.w_k + channel % s_.c * s_.w_c : channel * s_.w_k;
  }

  /// Loads the weights of channels [first, first + count), ordered by tap and channel of the group.
  void load(i64 first, i64 count, V* vectors) const {
    const S* w = static_cast<const S*>(job_.w);
    if (s_.c == 1 && has_packed_taps()) {
      for (i64 t = 0; t < taps_; t += kN) {
        transpose_from(w + first * s_.w_k + t, count, min_of<i64>(kN, taps_ - t), vectors + t);
      }
      return;
    }
    i64 filter_offset[kN];
    for (i64 l = 0; l < count; ++l) filter_offset[l] = offset_of(first + l);
    const i64 step = backward_data_ ? s_.w_k : s_.w_c;
    T* to = reinterpret_cast<T*>(vectors);
    each_tap(s_, [&](i64 offset) {
      for (i64 j = 0; j < s_.c; ++j, offset += step, to += kN) {
        for (i64 l = 0; l < kN; ++l) to[l] = l < count ? widen(w[offset + filter_offset[l]]) : T{};
      }
    });
  }

  /// The inverse, scaled: writes the sums of channels [first, first + count).
  void store(const V* sums, i64 first, i64 count) const {
    S* dw = static_cast<S*>(job_.result) + first * s_.w_k;
    if (s_.c == 1 && has_packed_taps()) {
      for (i64 t = 0; t < taps_; t += kN) transpose_to(sums + t, count, min_of<i64>(kN, taps_ - t), dw + t);
      return;
    }
    const T* from = reinterpret_cast<const T*>(sums);
    each_tap(s_, [&](i64 offset) {
      for (i64 j = 0; j < s_.c; ++j, offset += s_.w_c, from += kN) scatter(from, count, dw + offset);
    });
  }

 private:
  bool has_packed_taps() const {
    const i64 *taps = s_.taps, *steps = s_.w_d;
    return (taps[2] == 1 || steps[2] == 1) && (taps[1] == 1 || steps[1] == taps[2]) &&
           (taps[0] == 1 || steps[0] == taps[1] * taps[2]);
  }
  template <class Use>
  static void with_taps_of_vector(i64 taps, const Use& use) {
    if (taps == kN) return use(AllChannels<S>{});
    use(SomeChannels<S>{static_cast<int>(taps)});
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
  /// The inverse of transpose_from, scaled: writes `taps` taps of `channels` filters.
  void transpose_to(const V* from, i64 channels, i64 taps, S* dw) const {
    if (taps == 1) return scatter(reinterpret_cast<const T*>(from), channels, dw);
    const i64 step = s_.w_k;
    const V alpha = broadcast(static_cast<T>(job_.alpha)), beta = broadcast(static_cast<T>(job_.beta));
    const bool adds = static_cast<T>(job_.beta) != 0;
    with_taps_of_vector(taps, [&](const auto& access) {
      V rows[kN];
#pragma GCC unroll 16
      for (i64 t = 0; t < kN; ++t) rows[t] = t < taps ? from[t] * alpha : V{};
      transpose(rows);
#pragma GCC unroll 16
      for (i64 l = 0; l < kN; ++l) {
        if (l < channels) access.store(dw + l * step, adds ? rows[l] + beta * access(dw + l * step) : rows[l]);
      }
    });
  }
  /// Writes one tap of `channels` filters, scaled.
  void scatter(const T* sums, i64 channels, S* dw) const {
    const i64 step = s_.w_k;
    const T alpha = static_cast<T>(job_.alpha), beta = static_cast<T>(job_.beta);
    if (beta == 0) {
      for (i64 l = 0; l < channels; ++l) dw[l * step] = narrow<S>(alpha * sums[l]);
    } else {
      for (i64 l = 0; l < channels; ++l) dw[l * step] = narrow<S>(alpha * sums[l] + beta * widen(dw[l * step]));
    }
  }

  const Depthwise& job_;
  const ConvShape& s_;
  const bool backward_data_;
  const i64 taps_;
};

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
