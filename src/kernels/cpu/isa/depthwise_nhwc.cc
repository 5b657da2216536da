// Depthwise and grouped convolution, NHWC: vectors run over channels; x and y are accessed in place. A tile is a vector
// of channels of a few vertically adjacent pixels. With groups, each lane sums over all channels of its group: the
// kernel loads a source vector once per channel of the group and permutes it.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/depthwise_paths.h"
#include "kernels/cpu/isa/depthwise_nhwc_loop.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

/// S: type of x, w and dy; R: type of the results, see Results.
template <class S, class R = S>
class Pixels : PixelLoop<Pixels<S, R>, S, R, kLanes<Sum<S>>> {
  static constexpr bool kAllDirections = __is_same(S, R);  // int8: forward only
  using Loop = PixelLoop<Pixels, S, R, kLanes<Sum<S>>>;
  using Loop::kN, Loop::plan_, Loop::scratch_, Loop::filters_, Loop::s_, Loop::channels_;
  using Loop::x_, Loop::out_, Loop::block_;
  using typename Loop::V, typename Loop::Out;
  friend Loop;

 public:
  Pixels(const Depthwise& job, void* scratch) : Loop(job, unit_of(job), scratch), groups_({}, job.shape.c) {}
  static std::size_t bytes(const Depthwise& job) { return Loop::bytes(job, unit_of(job)); }

  void pieces(i64 first, i64 end) {
    if constexpr (kAllDirections) {
      for (i64 i = first, blocks = 0; plan_.weights_only && i < end; i += blocks) {
        blocks = min_of(plan_.job.blocks_at_once(), end - i);
        all_weights(i, blocks);
      }
    }
    for (i64 i = first; !plan_.weights_only && i < end; ++i) this->piece(i);
  }

 private:
  static i64 unit_of(const Depthwise& job) {
    const i64(&taps)[kSpatial] = job.shape.taps;
    return taps[0] * taps[1] * taps[2] * job.shape.c;
  }

  void pack() {
    for (i64 u = 0; u < channels_.units; ++u) {
      filters_.load(channels_.first + u * kN, channels_of(u), vectors_of(u));
    }
  }
  i64 channels_of(i64 unit) const { return min_of<i64>(kN, channels_.count - unit * kN); }
  V* vectors_of(i64 unit) const { return scratch_.vectors + unit * plan_.unit; }
  i64 row_weights() const { return s_.taps[2]; }
  template <int kRows>
  void pixels(const ColumnPhase& phase, Range taps, bool two_pixels, const S* x, Out out, i64 unit) {
    block_.columns = phase.columns + taps.first * phase.columns_per_tap;
    block_.count = max_of<i64>(taps.end - taps.first, 0) * phase.columns_per_tap;
    if (s_.c == 1) {
      all_units<kRows>(phase, x, out, unit);
    } else if constexpr (__is_same(S, float)) {
      two_pixels ? one_unit<kRows, Loop::kMostPixels>(phase.inside, x, out, unit)
                 : one_unit<kRows, 1>(phase.inside, x, out, unit);
    }
  }

  template <int kRows>
  void all_units(const ColumnPhase& phase, const S* x, Out out, i64 unit) {
    const i64 units = min_of(this->units_at_once(), channels_.units - unit),
              whole = min_of(units, channels_.count / kN - unit);
    V* const vectors = vectors_of(unit);
    with_form<kRows>(phase.form, [&](auto form) {
      rows_of<kRows, 1, Form(form.value)>(phase.inside, x, out, vectors, whole, AllChannels<S>{});
    });
    if (whole == units) return;
    const SomeChannels<S> tail{static_cast<int>(channels_.count % kN)};
    if (block_.terms != nullptr) block_.terms += 2 * whole;
    single_rows<kRows>(x + whole * kN, out + whole * kN, vectors + whole * plan_.taps, tail);
  }
  /// Groups of several channels.
  template <int kRows, int kPixels>
  void one_unit(bool inside, const S* x, Out out, i64 unit) {
    const i64 lanes = channels_of(unit);
    V* const vectors = vectors_of(unit);
    if (lanes < kN) {
      const WholeGroups<SomeChannels<float>> channels({static_cast<int>(lanes)}, s_.c);
      for (i64 p = 0; p < kPixels; ++p) {
        single_rows<kRows>(x + p * block_.x_pixel, out + p * block_.out_pixel, vectors, channels);
      }
    } else if (s_.c < kN) {
      rows_of<kRows, kPixels, kAnyForm>(inside, x, out, vectors, 1, groups_);
    } else {
      rows_of<kRows, kPixels, kAnyForm>(inside, x, out, vectors, 1, GroupPart(s_.c, unit * kN % s_.c));
    }
  }
  template <int kRows, int kPixels, Form kForm, class Channels>
  void rows_of(bool inside, const S* x, Out out, V* vectors, i64 count, const Channels& channels) const {
    if constexpr (kForm != kFromMemory) {
      if (inside) return units<kRows, kPixels, true, kForm>(0, x, out, vectors, count, channels);
    }
    units<kRows, kPixels, false, kForm>(0, x, out, vectors, count, channels);
  }
  /// Partial vectors, row by row: this makes the tests of the number of lanes cheaper.
  template <int kRows, class Channels>
  void single_rows(const S* x, Out out, V* vectors, const Channels& channels) const {
    for (i64 row = 0; row < kRows; ++row) units<1, 1, false, kAnyForm>(row, x, out, vectors, 1, channels);
  }
  template <int kRows, int kPixels, bool kInside, Form kForm, class Channels>
  void units(i64 row, const S* x, Out out, V* vectors, i64 count, const Channels& channels) const {
    if constexpr (kAllDirections) {
      if (plan_.weights_only) {
        return weights_tile<S, kRows, kPixels, kInside, kForm>(block_, row, x, out, vectors, count, plan_.taps,
                                                               channels);
      }
    }
    tile<S, kRows, kPixels, kInside, kForm>(block_, row, x, vectors, out, count, plan_.taps, channels);
  }
  /// Calls `use` with the form as a constant if a tile is compiled for it, else with kAnyForm.
  template <int kRows, class Use>
  static void with_form(Form form, const Use& use) {
    if (form == kFromMemory) return use(std::integral_constant<int, kFromMemory>{});
    if constexpr (__is_same(S, float) && kRows >= 2) {
      if (form == kOnes) return use(std::integral_constant<int, kOnes>{});
      if (form == kTwos) return use(std::integral_constant<int, kTwos>{});
      if (form == kThrees) return use(std::integral_constant<int, kThrees>{});
      if (form == kTwosAndOnes) return use(std::integral_constant<int, kTwosAndOnes>{});
    }
    use(std::integral_constant<int, kAnyForm>{});
  }

  void all_weights(i64 block, i64 blocks) {
    this->select_blocks(block, blocks);
    for (i64 i = 0; i < channels_.units * plan_.unit; ++i) scratch_.vectors[i] = V{};
    for (i64 n = 0; n < s_.n; ++n) {
      x_ = static_cast<const S*>(plan_.job.x) + n * s_.x_n + channels_.first;
      out_ = const_cast<S*>(static_cast<const S*>(plan_.job.y)) + n * s_.y_n + channels_.first;
      for (i64 slab = 0; slab < s_.out[0]; ++slab) this->run_phase(0, 0, slab, 0, 1);
    }
    for (i64 u = 0; u < channels_.units; ++u) filters_.store(vectors_of(u), channels_.first + u * kN, channels_of(u));
  }

  WholeGroups<AllChannels<float>> groups_;
};

}  // namespace

void depthwise_nhwc(const Depthwise& job, i64 first, i64 end, void* scratch) {
  const DataType type = job.shape.dtype;
  if (type == DataType::kInt8) return Pixels<std::int8_t, AnyInteger>(job, scratch).pieces(first, end);
  if (type == DataType::kDouble) return Pixels<double>(job, scratch).pieces(first, end);
  with_storage<float>(type, [&]<class S>(S*) { Pixels<S>(job, scratch).pieces(first, end); });
}

std::size_t depthwise_nhwc_scratch(const Depthwise& job) {
  const DataType type = job.shape.dtype;
  if (type == DataType::kInt8) return Pixels<std::int8_t, AnyInteger>::bytes(job);
  if (type == DataType::kDouble) return Pixels<double>::bytes(job);
  return with_storage<float>(type, [&]<class S>(S*) { return Pixels<S>::bytes(job); });
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
