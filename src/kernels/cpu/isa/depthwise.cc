// Depthwise and grouped convolution, NHWC: vectors run over channels; x and y are accessed in place. A tile is a vector
// of channels of a few vertically adjacent pixels. With groups, each lane sums over all channels of its group: the
// kernel loads a source vector once per channel of the group and permutes it.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/depthwise_nchw.h"
#include "kernels/cpu/isa/depthwise_nhwc_loop.h"
#include "kernels/cpu/isa/isa_namespaces.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

/// S: type of x, w and dy; R: type of the results.
template <class S, class R = S>
class Pixels : PixelLoop<Pixels<S, R>, S, R, kLanes<Sum<S>>> {
  static constexpr bool kAllDirections = __is_same(S, R);  // int8 results of another type: forward only
  using Loop = PixelLoop<Pixels, S, R, kLanes<Sum<S>>>;
  using Loop::channel_, Loop::channels_, Loop::vectors_, Loop::x_, Loop::out_, Loop::block_;
  using Loop::kN, Loop::job_, Loop::s_, Loop::backward_data_, Loop::weights_only_, Loop::taps_, Loop::unit_,
      Loop::units_;
  using typename Loop::T;
  using typename Loop::V;
  friend Loop;

 public:
  Pixels(const Depthwise& job, void* scratch) : Loop(job, unit_of(job), scratch), groups_({}, job.shape.c) {}
  static std::size_t bytes(const Depthwise& job) { return Loop::bytes(job, unit_of(job)); }

  void pieces(i64 first, i64 end) {
    if constexpr (kAllDirections) {
      for (i64 i = first, blocks = 0; weights_only_ && i < end; i += blocks) {
        blocks = min_of(job_.blocks_at_once(), end - i);
        all_weights(i, blocks);
      }
    }
    for (i64 i = first; !weights_only_ && i < end; ++i) this->piece(i);
  }

 private:
  static i64 unit_of(const Depthwise& job) {
    const i64(&taps)[kSpatial] = job.shape.taps;
    return taps[0] * taps[1] * taps[2] * job.shape.c;
  }

  void pack() {
    for (i64 u = 0; u < units_; ++u) {
      this->load_weights(channel_ + u * kN, min_of<i64>(kN, channels_ - u * kN), vectors_ + u * unit_);
    }
  }
  /// The inverse of transpose_from, scaled: writes `taps` taps of `channels` filters.
  void transpose_to(const V* from, i64 channels, i64 taps, S* dw) const {
    if (taps == 1) return scatter(reinterpret_cast<const T*>(from), channels, dw);
    const i64 step = s_.w_k;
    const V alpha = broadcast(block_.alpha), beta = broadcast(block_.beta);
    const bool adds = block_.beta != 0;
    Loop::with_taps_of_vector(taps, [&](const auto& access) {
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
    const T alpha = block_.alpha, beta = block_.beta;
    if (beta == 0) {
      for (i64 l = 0; l < channels; ++l) dw[l * step] = narrow<S>(alpha * sums[l]);
    } else {
      for (i64 l = 0; l < channels; ++l) dw[l * step] = narrow<S>(alpha * sums[l] + beta * widen(dw[l * step]));
    }
  }
  i64 row_weights() const { return s_.taps[2]; }
  template <int kRows>
  void pixels(const ColumnPhase& phase, Range taps, bool two_pixels, const S* x, R* out, i64 unit) {
    block_.columns = phase.columns + taps.low * phase.columns_per_tap;
    block_.count = max_of<i64>(taps.high - taps.low, 0) * phase.columns_per_tap;
    if (s_.c == 1) {
      all_units<kRows>(phase, x, out, unit);
    } else if constexpr (__is_same(S, float)) {
      two_pixels ? one_unit<kRows, Loop::kMostPixels>(phase.inside, x, out, unit)
                 : one_unit<kRows, 1>(phase.inside, x, out, unit);
    }
  }

  template <int kRows>
  void all_units(const ColumnPhase& phase, const S* x, R* out, i64 unit) {
    const i64 units = min_of(this->units_at_once(), units_ - unit), whole = min_of(units, channels_ / kN - unit);
    V* const vectors = vectors_ + unit * taps_;
    with_form<kRows>(phase.form, [&](auto form) {
      rows_of<kRows, 1, Form(form.value)>(phase.inside, x, out, vectors, whole, AllChannels<S>{});
    });
    if (whole == units) return;
    const SomeChannels<S> tail{static_cast<int>(channels_ % kN)};
    single_rows<kRows>(x + whole * kN, out + whole * kN, vectors + whole * taps_, tail);
  }
  /// Groups of several channels.
  template <int kRows, int kPixels>
  void one_unit(bool inside, const S* x, R* out, i64 unit) {
    const i64 lanes = min_of<i64>(kN, channels_ - unit * kN);
    V* const vectors = vectors_ + unit * unit_;
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
  void rows_of(bool inside, const S* x, R* out, V* vectors, i64 count, const Channels& channels) const {
    if constexpr (kForm != kFromMemory) {
      if (inside) return units<kRows, kPixels, true, kForm>(0, x, out, vectors, count, channels);
    }
    units<kRows, kPixels, false, kForm>(0, x, out, vectors, count, channels);
  }
  /// Partial vectors, row by row: this makes the tests of the number of lanes cheaper.
  template <int kRows, class Channels>
  void single_rows(const S* x, R* out, V* vectors, const Channels& channels) const {
    for (i64 row = 0; row < kRows; ++row) units<1, 1, false, kAnyForm>(row, x, out, vectors, 1, channels);
  }
  template <int kRows, int kPixels, bool kInside, Form kForm, class Channels>
  void units(i64 row, const S* x, R* out, V* vectors, i64 count, const Channels& channels) const {
    if constexpr (kAllDirections) {
      if (weights_only_) {
        return weights_tile<S, kRows, kPixels, kInside, kForm>(block_, row, x, out, vectors, count, taps_, channels);
      }
    }
    tile<S, kRows, kPixels, kInside, kForm>(block_, row, x, vectors, out, count, taps_, channels);
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
    for (i64 i = 0; i < units_ * unit_; ++i) vectors_[i] = V{};
    for (i64 n = 0; n < s_.n; ++n) {
      x_ = static_cast<const S*>(job_.x) + n * s_.x_n + channel_;
      out_ = const_cast<S*>(static_cast<const S*>(job_.y)) + n * s_.y_n + channel_;
      for (i64 slab = 0; slab < s_.out[0]; ++slab) this->run_phase(0, 0, slab, 0, 1);
    }
    for (i64 u = 0; u < units_; ++u) write_weights(u);
  }

  void write_weights(i64 u) {
    S* dw = static_cast<S*>(job_.result) + (channel_ + u * kN) * s_.w_k;
    const i64 channels = min_of<i64>(kN, channels_ - u * kN);
    if (s_.c == 1 && this->taps_packed()) {
      for (i64 t = 0; t < taps_; t += kN)
        transpose_to(vectors_ + u * taps_ + t, channels, min_of<i64>(kN, taps_ - t), dw + t);
      return;
    }
    const T* sums = reinterpret_cast<const T*>(vectors_ + u * unit_);
    this->each_tap([&](i64 offset) {
      for (i64 j = 0; j < s_.c; ++j, offset += s_.w_c, sums += kN) scatter(sums, channels, dw + offset);
    });
  }

  WholeGroups<AllChannels<float>> groups_;
};

/// Calls `use` with a value of the storage type of the tensors.
template <class Use>
auto with_storage(DataType type, const Use& use) {
  switch (type) {
    case DataType::kDouble: return use(double{});
    case DataType::kHalf: return use(Half{});
    case DataType::kBFloat16: return use(Bfloat16{});
    default: return use(float{});
  }
}

void depthwise(const Depthwise& job, i64 first, i64 end, void* scratch) {
  if (job.few_pixels) return depthwise_few_pixels(job, first, end, scratch);
  if (job.mixed()) return depthwise_fp32_copy(job, first, end, scratch);
  if (job.transposed) return depthwise_via_nhwc(job, first, end, scratch);
  if (!job.channels_last) return depthwise_nchw(job, first, end, scratch);
  if (job.shape.dtype == DataType::kInt8) {
    return with_integers(job.result_type, job.result, [&](auto* result) {
      Pixels<std::int8_t, std::remove_pointer_t<decltype(result)>>(job, scratch).pieces(first, end);
    });
  }
  with_storage(job.shape.dtype, [&](auto value) { Pixels<decltype(value)>(job, scratch).pieces(first, end); });
}

std::size_t depthwise_scratch(const Depthwise& job) {
  if (job.few_pixels) return depthwise_few_pixels_scratch(job);
  if (job.mixed()) return depthwise_fp32_copy_scratch(job);
  if (job.transposed) return depthwise_via_nhwc_scratch(job);
  if (!job.channels_last) return depthwise_nchw_scratch(job);
  if (job.shape.dtype == DataType::kInt8) return Pixels<std::int8_t>::bytes(job);
  return with_storage(job.shape.dtype, [&](auto value) { return Pixels<decltype(value)>::bytes(job); });
}

}  // namespace

template <>
const DepthwiseKernels& entry_points<DepthwiseKernels>() {
  static constexpr DepthwiseKernels kKernels{.run = depthwise, .scratch = depthwise_scratch};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
