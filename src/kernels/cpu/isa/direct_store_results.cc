// Stores the sums of a direct convolution: scaling, bias, activation, conversion, change of layout.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/activation.h"
#include "kernels/cpu/epilogue.h"
#include "kernels/cpu/isa/direct_stages.h"
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

/// sums = alpha * sums + bias.
template <class A, class S>
void add_bias(const DirectArgs& args, const DirectSums& s) {
  const S* bias = static_cast<const S*>(args.epilogue->bias);
  A* sums = reinterpret_cast<A*>(s.sums);
  const A alpha = static_cast<A>(args.alpha);
  for (i64 c = 0; c < s.lanes; c += kLanes<A>) {
    A line[kLanes<A>] = {};
    for (i64 j = 0; bias && j < min_of<i64>(kLanes<A>, s.channels - c); ++j) line[j] = widen(bias[s.first + c + j]);
    const Vec<A> add = load(line);
    for (i64 i = 0; i < s.pixels; ++i) {
      A* p = sums + i * s.lanes + c;
      store(p, load(p) * alpha + add);
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
  if (!args.epilogue) return;
  switch (job.to.type) {
    case DataType::kHalf: add_bias<float, Half>(args, sums); break;
    case DataType::kBFloat16: add_bias<float, Bfloat16>(args, sums); break;
    case DataType::kDouble: add_bias<double, double>(args, sums); break;
    default: add_bias<float, float>(args, sums); break;
  }
  const Epilogue& e = *args.epilogue;
  if (e.mode == 0) return;
  const DataType type = job.to.type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
  const Activation in_place{type,   e.mode, ActivationPass::kForward, sums.sums, nullptr, sums.sums, e.alpha,
                            e.beta, e.gamma};
  entry_points<ActivationKernels>().run(in_place, 0, sums.pixels * sums.lanes);
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
