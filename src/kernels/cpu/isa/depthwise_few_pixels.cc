// NCHW depthwise convolution of planes with few pixels, as in one step of a decoder: vectors run over channels. The
// kernel reads and writes the channels of an image as one stream and transposes them in registers.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/depthwise_epilogue.h"
#include "kernels/cpu/isa/depthwise_paths.h"
#include "kernels/cpu/isa/transpose.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

constexpr int kN = kLanes<float>;

template <int kOdd, std::size_t... I>
Floats every_second(Floats a, Floats b, std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b, static_cast<int>(2 * I + kOdd)...);
}
template <int kFirst, std::size_t... I>
Floats interleaved(Floats a, Floats b, std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b, static_cast<int>(kFirst + I / 2 + I % 2 * kN)...);
}
using Lanes = std::make_index_sequence<kN>;

/// Transposes kPixels vectors of consecutive whole planes to one vector of channels per pixel.
template <int kPixels>
[[gnu::always_inline]] inline void planes_to_lanes(Floats (&v)[kPixels]) {
  if constexpr (kPixels > 1) {
    Floats even[kPixels / 2], odd[kPixels / 2];
#pragma GCC unroll 16
    for (int i = 0; i < kPixels / 2; ++i) {
      even[i] = every_second<0>(v[2 * i], v[2 * i + 1], Lanes{});
      odd[i] = every_second<1>(v[2 * i], v[2 * i + 1], Lanes{});
    }
    planes_to_lanes(even);
    planes_to_lanes(odd);
#pragma GCC unroll 16
    for (int i = 0; i < kPixels / 2; ++i) {
      v[2 * i] = even[i];
      v[2 * i + 1] = odd[i];
    }
  }
}

/// The inverse of planes_to_lanes.
template <int kPixels>
[[gnu::always_inline]] inline void lanes_to_planes(Floats (&v)[kPixels]) {
  if constexpr (kPixels > 1) {
    Floats even[kPixels / 2], odd[kPixels / 2];
#pragma GCC unroll 16
    for (int i = 0; i < kPixels / 2; ++i) {
      even[i] = v[2 * i];
      odd[i] = v[2 * i + 1];
    }
    lanes_to_planes(even);
    lanes_to_planes(odd);
#pragma GCC unroll 16
    for (int i = 0; i < kPixels / 2; ++i) {
      v[2 * i] = interleaved<0>(even[i], odd[i], Lanes{});
      v[2 * i + 1] = interleaved<kN / 2>(even[i], odd[i], Lanes{});
    }
  }
}

/// Calls `use` with the number of pixels as a constant if whole vectors of planes transpose in few steps, else
/// `otherwise`.
template <class Use, class Otherwise>
void with_pixels(i64 pixels, int channels, const Use& use, const Otherwise& otherwise) {
  if (channels < kN) return otherwise();
  switch (pixels) {
    case 1: return use(std::integral_constant<int, 1>{});
    case 2: return use(std::integral_constant<int, 2>{});
    case 4: return use(std::integral_constant<int, 4>{});
    case 8:
      if constexpr (kN >= 8) return use(std::integral_constant<int, 8>{});
      [[fallthrough]];
    default: return otherwise();
  }
}

/// A product of a result: source pixel times tap.
struct Term {
  int source, tap;
};

/// S: the type of the tensors.
template <class S>
class FewPixels {
 public:
  FewPixels(const Depthwise& job, void* scratch) : job_(job), s_(job.shape), epilogue_(job) {
    const bool backward_data = job.direction == ConvDirection::kBackwardData;
    taps_ = s_.taps[0] * s_.taps[1] * s_.taps[2];
    const i64 x = s_.in[0] * s_.in[1] * s_.in[2], y = s_.out[0] * s_.out[1] * s_.out[2];
    source_pixels_ = backward_data ? y : x;
    result_pixels_ = backward_data ? x : y;
    weights_ = static_cast<Floats*>(scratch);
    vectors_ = taps_ + 2;
    terms_ = reinterpret_cast<Term*>(weights_ + kDepthwisePixelsBlock / kN * vectors_);
    ends_ = reinterpret_cast<int*>(terms_ + x * y);
    bytes_ = static_cast<std::size_t>(reinterpret_cast<char*>(ends_ + result_pixels_) - static_cast<char*>(scratch));
  }
  std::size_t bytes() const { return bytes_; }

  /// Pieces [first, end): images of a block of channels.
  void run(i64 first, i64 end) {
    list_terms();
    i64 loaded_block = -1;
    for (i64 piece = first; piece < end; ++piece) {
      const i64 block = piece / s_.n, n = piece % s_.n;
      const i64 channel = block * kDepthwisePixelsBlock, channels = min_of(kDepthwisePixelsBlock, s_.groups - channel);
      if (block != loaded_block) load_weights(channel, channels);
      loaded_block = block;
      const bool backward_data = job_.direction == ConvDirection::kBackwardData;
      const S* from = static_cast<const S*>(backward_data ? job_.y : job_.x) + n * (backward_data ? s_.y_n : s_.x_n) +
                      channel * source_pixels_;
      S* to = static_cast<S*>(job_.result) + n * (backward_data ? s_.x_n : s_.y_n) + channel * result_pixels_;
      for (i64 c = 0; c < channels; c += kN, from += kN * source_pixels_, to += kN * result_pixels_) {
        const int lanes = static_cast<int>(min_of<i64>(kN, channels - c));
        multiply(from, weights_ + c / kN * vectors_, lanes, to);
      }
    }
  }

 private:
  /// Lists the terms of each result.
  void list_terms() {
    const bool backward_data = job_.direction == ConvDirection::kBackwardData;
    int count = 0;
    for (i64 r = 0; r < result_pixels_; ++r) {
      for (i64 e = 0; e < source_pixels_; ++e) {
        const i64 tap = tap_between(backward_data ? r : e, backward_data ? e : r);
        if (tap >= 0) terms_[count++] = {static_cast<int>(e), static_cast<int>(tap)};
      }
      ends_[r] = count;
    }
  }
  /// The tap that connects input pixel x and output pixel y; -1 if there is none.
  i64 tap_between(i64 x, i64 y) const {
    i64 tap = 0, weight = 1;
    for (int d = kSpatial - 1; d >= 0; --d) {
      const i64 reach = x % s_.in[d] + s_.pad[d] - y % s_.out[d] * s_.stride[d], r = reach / s_.dilation[d];
      if (reach < 0 || reach % s_.dilation[d] != 0 || r >= s_.taps[d]) return -1;
      tap += r * weight;
      weight *= s_.taps[d];
      x /= s_.in[d];
      y /= s_.out[d];
    }
    return tap;
  }

  void load_weights(i64 channel, i64 channels) {
    const S* const w = static_cast<const S*>(job_.w) + channel * s_.w_k;
    const i64* d = s_.w_d;
    float* const vectors = reinterpret_cast<float*>(weights_);
    for (i64 t = 0; t < taps_; ++t) {
      const i64 offset =
          t % s_.taps[2] * d[2] + t / s_.taps[2] % s_.taps[1] * d[1] + t / s_.taps[2] / s_.taps[1] * d[0];
      for (i64 c = 0; c < channels; ++c) vectors[(c / kN * vectors_ + t) * kN + c % kN] = widen(w[c * s_.w_k + offset]);
    }
    for (i64 c = 0; c < channels && epilogue_; c += kN) {
      Floats* const terms = weights_ + c / kN * vectors_ + taps_;
      epilogue_.load(channel + c, min_of<i64>(kN, channels - c), terms[0], terms[1]);
    }
  }

  void multiply(const S* from, const Floats* weights, int channels, S* to) const {
    Floats source[kN], result[kN];
    with_pixels(
        source_pixels_, channels,
        [&](auto pixels) {
          Floats v[pixels.value];
          for (int i = 0; i < pixels.value; ++i) v[i] = load_widened(from + i * kN);
          planes_to_lanes(v);
          for (int i = 0; i < pixels.value; ++i) source[i] = v[i];
        },
        [&] { transpose_in(from, source_pixels_, channels, source_pixels_, reinterpret_cast<float*>(source), kN); });
    const Term* term = terms_;
    for (i64 r = 0; r < result_pixels_; ++r) {
      Floats sum{};
      for (const Term* const end = terms_ + ends_[r]; term < end; ++term)
        sum += source[term->source] * weights[term->tap];
      result[r] = epilogue_ ? epilogue_.range(sum * weights[taps_] + weights[taps_ + 1]) : sum;
    }
    const float alpha = epilogue_ ? 1.f : static_cast<float>(job_.alpha);
    const Scaling scaling{alpha, static_cast<float>(job_.beta)};
    with_pixels(
        result_pixels_, channels,
        [&](auto pixels) {
          Floats v[pixels.value];
          for (int i = 0; i < pixels.value; ++i) v[i] = result[i];
          lanes_to_planes(v);
          for (int i = 0; i < pixels.value; ++i) write_scaled(to + i * kN, v[i], kN, scaling);
        },
        [&] {
          transpose_out(reinterpret_cast<float*>(result), kN, to, result_pixels_, channels, result_pixels_, scaling);
        });
  }

  const Depthwise& job_;
  const ConvShape& s_;
  const DepthwiseEpilogue<float> epilogue_;
  i64 taps_, vectors_, source_pixels_, result_pixels_;
  Floats* weights_;  // [vector of channels of a block][tap; scale and bias of the epilogue]
  Term* terms_;
  int* ends_;  // per result: end of its terms
  std::size_t bytes_;
};

}  // namespace

void depthwise_few_pixels(const Depthwise& job, i64 first, i64 end, void* scratch) {
  with_storage<float>(job.shape.dtype, [&]<class S>(S*) { FewPixels<S>(job, scratch).run(first, end); });
}

std::size_t depthwise_few_pixels_scratch(const Depthwise& job) { return FewPixels<float>(job, nullptr).bytes(); }

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
