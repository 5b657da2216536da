// Stores the sums of a direct convolution: scaling, epilogue, conversion, change of layout.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/isa/apply_epilogue.h"
#include "kernels/cpu/isa/direct_stages.h"
#include "kernels/cpu/isa/micro_kernel.h"
#include "kernels/cpu/isa/store_results.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

/// Non-temporal stores of whole vectors: an Emit without scaling.
template <class S>
struct NonTemporal {
  void operator()(S* y, Vec<S> v, int n) const {
    if (n == kLanes<S>) return stream(y, v);
    store_lanes(y, v, n);
  }
};

/// Outputs are contiguous: transposes blocks of outputs x channels.
template <class A, class S, class E>
void store_nchw(const DirectLine& l, const E& emit) {
  constexpr int kN = kLanes<A>;
  for (i64 c = 0; c < l.channels; c += kN) {
    const int width = static_cast<int>(min_of<i64>(kN, l.channels - c));
    for (i64 i = 0; i < l.count; i += kN) {
      const int height = static_cast<int>(min_of<i64>(kN, l.count - i));
      Vec<A> block[kN];
#pragma GCC unroll 16
      for (int j = 0; j < kN; ++j) {
        const i64 pixel = i + (j < height ? j : 0);
        block[j] = load(reinterpret_cast<const A*>(l.sums + pixel * l.sums_pixel) + c);
      }
      transpose(block);
      S* y = reinterpret_cast<S*>(l.to) + c * l.channel + i;
      for (int j = 0; j < width; ++j) emit(y + j * l.channel, block[j], height);
    }
  }
}

/// Any strides. reads: whether emit reads the result.
template <class A, class S, class E>
void store_strided(const DirectLine& l, bool reads, const E& emit) {
  constexpr int kN = kLanes<A>;
  for (i64 i = 0; i < l.count; ++i) {
    const A* sums = reinterpret_cast<const A*>(l.sums + i * l.sums_pixel);
    S* y = reinterpret_cast<S*>(l.to) + i * l.pixel;
    for (i64 c = 0; c < l.channels; c += kN) {
      const int n = static_cast<int>(min_of<i64>(kN, l.channels - c));
      S line[kN];
      for (int j = 0; j < n; ++j) line[j] = reads ? y[(c + j) * l.channel] : S{};
      emit(line, load(sums + c), n);
      for (int j = 0; j < n; ++j) y[(c + j) * l.channel] = line[j];
    }
  }
}

/// Channels are contiguous.
template <class A, class S, class E>
void store_nhwc(const DirectLine& l, const E& emit) {
  constexpr int kN = kLanes<A>;
  for (i64 i = 0; i < l.count; ++i) {
    const A* sums = reinterpret_cast<const A*>(l.sums + i * l.sums_pixel);
    S* y = reinterpret_cast<S*>(l.to) + i * l.pixel;
    for (i64 c = 0; c < l.channels; c += kN) {
      emit(y + c, load(sums + c), static_cast<int>(min_of<i64>(kN, l.channels - c)));
    }
  }
}

template <class A, class S>
void store_as(const DirectArgs& args, const DirectLine& l) {
  const Emit<A, S> emit{static_cast<decltype(Emit<A, S>::alpha)>(args.epilogue ? 1 : args.alpha),
                        static_cast<decltype(Emit<A, S>::beta)>(args.beta)};
  const bool is_nchw = l.channel != 1 && l.pixel == 1;
  if constexpr (__is_same(A, S) && sizeof(S) == 4) {
    if (l.non_temporal) return is_nchw ? store_nchw<A, S>(l, NonTemporal<S>{}) : store_nhwc<A, S>(l, NonTemporal<S>{});
  }
  if (is_nchw) return store_nchw<A, S>(l, emit);
  if (l.channel == 1) return store_nhwc<A, S>(l, emit);
  store_strided<A, S>(l, args.beta != 0, emit);
}

/// sums += residual_alpha * residual, for images that are `fold` lines of sums apart.
template <class A, class S>
void add_residual(const Direct& job, const DirectArgs& args, const DirectSums& s) {
  const A alpha = static_cast<A>(args.epilogue->residual_alpha);
  const char* const from = static_cast<const char*>(args.epilogue->residual) + (s.to - static_cast<char*>(args.to));
  const i64 fold = job.cut.fold;
  for (i64 image = 0; image < s.images; ++image) {
    const S* residual = reinterpret_cast<const S*>(from) + image * job.to.n;
    A* sums = reinterpret_cast<A*>(s.sums) + image * s.lanes;
    for (i64 i = 0; i < s.pixels / fold; ++i, residual += s.to_pixel, sums += fold * s.lanes)
      for (i64 c = 0; c < s.channels; ++c) sums[c] += alpha * static_cast<A>(widen(residual[c * job.to.c]));
  }
}

template <class A, class S>
void finish_as(const Direct& job, const DirectArgs& args, const DirectSums& s) {
  const EpilogueSums<A> sums{reinterpret_cast<A*>(s.sums), s.pixels, s.lanes, s.channels, s.first};
  apply_epilogue<A, S>(*args.epilogue, args.alpha, sums, [&] { add_residual<A, S>(job, args, s); });
}

/// Sums of a panel of `kVectors` vectors to outputs with contiguous channels, through an epilogue that is a range, in
/// one pass. Pixels are the outer loop: with many channels neighbouring pixels would share the sets of the first-level
/// cache.
template <int kVectors>
void store_scaled(const DirectArgs& args, const DirectLine& l, i64 first_channel) {
  using T = float;
  constexpr i64 kN = kLanes<T>;
  const ChannelValues<T, T> values(*args.epilogue);
  const ActivationRange<T> range(*args.epilogue);
  const int tail = static_cast<int>(l.channels - (kVectors - 1) * kN);
  Vec<T> scale[kVectors], bias[kVectors];
  for (int j = 0; j < kVectors; ++j) {
    const i64 c = first_channel + j * kN;
    const int width = j + 1 < kVectors ? static_cast<int>(kN) : tail;
    scale[j] = broadcast(static_cast<T>(args.alpha));
    if (values.has_scale()) scale[j] *= load_lanes(values.scales(c), 0, width);
    bias[j] = values.has_bias() ? load_lanes(values.biases(c), 0, width) : Vec<T>{};
  }
  const char* sums = l.sums;
  T* y = reinterpret_cast<T*>(l.to);
  for (i64 i = 0; i < l.count; ++i, sums += l.sums_pixel, y += l.pixel) {
    const T* const pixel = reinterpret_cast<const T*>(sums);
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      const Vec<T> v = range(load(pixel + j * kN) * scale[j] + bias[j]);
      if (j + 1 == kVectors && tail < kN)
        store_lanes(y + j * kN, v, tail);
      else if (kStreams && l.non_temporal)
        stream(y + j * kN, v);
      else
        store(y + j * kN, v);
    }
  }
}

void subtract_zero_point(const DirectSums& s) {
  std::int32_t* sums = reinterpret_cast<std::int32_t*>(s.sums);
  constexpr int kN = kLanes<std::int32_t>;
  for (i64 c = 0; c < s.lanes; c += kN) {
    const Vec<std::int32_t> zero_point = load(reinterpret_cast<const std::int32_t*>(s.zero_point) + c);
    for (i64 i = 0; i < s.pixels; ++i) store(sums + i * s.lanes + c, load(sums + i * s.lanes + c) - zero_point);
  }
}

}  // namespace

void finish_sums(const Direct& job, const DirectArgs& args, const DirectSums& sums) {
  if (job.unit.shifts()) subtract_zero_point(sums);
  if (!args.epilogue || stores_scaled(job, args)) return;
  switch (job.to.type) {
    case DataType::kHalf: return finish_as<float, Half>(job, args, sums);
    case DataType::kBFloat16: return finish_as<float, Bfloat16>(job, args, sums);
    case DataType::kDouble: return finish_as<double, double>(job, args, sums);
    default: return finish_as<float, float>(job, args, sums);
  }
}

bool stores_scaled(const Direct& job, const DirectArgs& args) {
  const bool is_plain = args.epilogue && args.epilogue->residual == nullptr && job.to.c == 1;
  const bool is_float = job.to.type == DataType::kFloat && !job.unit.sums_integers();
  return is_plain && is_float && ActivationRange<float>(*args.epilogue).is_known;
}

void store_scaled_line(const DirectArgs& args, const DirectLine& line, i64 first_channel) {
  static_assert(kMicroVectors == 4);
  switch (ceil_div(line.channels, i64{kLanes<float>})) {
    case 1: return store_scaled<1>(args, line, first_channel);
    case 2: return store_scaled<2>(args, line, first_channel);
    case 3: return store_scaled<3>(args, line, first_channel);
    default: return store_scaled<4>(args, line, first_channel);
  }
}

void store_line(const Direct& job, const DirectArgs& args, const DirectLine& line) {
  switch (job.to.type) {
    case DataType::kHalf: return store_as<float, Half>(args, line);
    case DataType::kBFloat16: return store_as<float, Bfloat16>(args, line);
    case DataType::kDouble: return store_as<double, double>(args, line);
    case DataType::kInt8: return store_as<std::int32_t, std::int8_t>(args, line);
    case DataType::kInt32: return store_as<std::int32_t, std::int32_t>(args, line);
    default:
      return job.unit.sums_integers() ? store_as<std::int32_t, float>(args, line) : store_as<float, float>(args, line);
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
