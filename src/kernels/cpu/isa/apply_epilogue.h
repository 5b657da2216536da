// The epilogue of sums [pixel][lane] that a kernel has not stored yet, channels in lanes.
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/activation.h"
#include "kernels/cpu/epilogue.h"
#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/math_functions.h"
#include "kernels/cpu/isa/storage_types.h"
#include "kernels/cpu/vector.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// Scale and bias of an epilogue whose results are stored as S and computed as T.
template <class S, class T>
class ChannelValues {
 public:
  explicit ChannelValues(const Epilogue& e)
      : scale_(static_cast<const T*>(e.scale)),
        wide_bias_(e.scale == nullptr ? nullptr : static_cast<const T*>(e.bias)),
        bias_(e.scale == nullptr ? static_cast<const S*>(e.bias) : nullptr) {}
  bool empty() const { return scale_ == nullptr && bias_ == nullptr; }
  bool has_scale() const { return scale_ != nullptr; }
  bool has_bias() const { return wide_bias_ != nullptr || bias_ != nullptr; }
  const T* scales(i64 channel) const { return scale_ + channel; }
  /// Where S is T.
  const T* biases(i64 channel) const {
    return (wide_bias_ != nullptr ? wide_bias_ : reinterpret_cast<const T*>(bias_)) + channel;
  }
  T scale(i64 channel) const { return scale_ == nullptr ? T{1} : scale_[channel]; }
  T bias(i64 channel) const {
    if (wide_bias_ != nullptr) return wide_bias_[channel];
    return bias_ == nullptr ? T{0} : static_cast<T>(widen(bias_[channel]));
  }

 private:
  const T *scale_, *wide_bias_;
  const S* bias_;
};

/// An activation that restricts its argument to [low, high], without branches.
template <class T>
struct ActivationRange {
  T low = -static_cast<T>(__builtin_inf()), high = static_cast<T>(__builtin_inf());
  bool is_known = true;

  ActivationRange() = default;
  explicit ActivationRange(const Epilogue& e) : is_known(restricts_range(e.mode)) {
    constexpr int kPassthru = 0, kClippedRelu = 7, kClamp = 10;
    const T alpha = static_cast<T>(e.alpha);
    if (e.mode == kPassthru) return;
    low = e.mode == kClamp ? alpha : e.mode == kClippedRelu && alpha < 0 ? alpha : T{0};
    if (e.mode == kClippedRelu) high = alpha;
    if (e.mode == kClamp) high = static_cast<T>(e.beta);
  }
  /// NaN stays NaN.
  Vec<T> operator()(Vec<T> v) const { return larger_of<T>(broadcast(low), smaller_of<T>(broadcast(high), v)); }
};

/// Sums of `pixels` pixels times `lanes` channels, whole vectors, from channel `first` on; `channels` of them are used.
template <class T>
struct EpilogueSums {
  T* sums;
  i64 pixels, lanes, channels, first;
};

/// sums = range(alpha * scale * sums + bias).
template <class T, class S>
[[gnu::noinline]] void scale_sums(const Epilogue& e, double alpha, const EpilogueSums<T>& s,
                                  const ActivationRange<T>& range) {
  const ChannelValues<S, T> values(e);
  for (i64 c = 0; c < s.lanes; c += kLanes<T>) {
    T scales[kLanes<T>] = {}, biases[kLanes<T>] = {};
    for (i64 j = 0; j < min_of<i64>(kLanes<T>, s.channels - c); ++j) {
      scales[j] = static_cast<T>(alpha) * values.scale(s.first + c + j);
      biases[j] = values.bias(s.first + c + j);
    }
    const Vec<T> scale = load(scales), bias = load(biases);
    for (i64 i = 0; i < s.pixels; ++i) {
      T* p = s.sums + i * s.lanes + c;
      store(p, range(load(p) * scale + bias));
    }
  }
}

/// The activation of an epilogue, without effect on channels that are not used.
template <class T>
void activate_sums(const Epilogue& e, const EpilogueSums<T>& s) {
  const DataType type = __is_same(T, double) ? DataType::kDouble : DataType::kFloat;
  const Activation in_place{type, e.mode, ActivationPass::kForward, s.sums, nullptr, s.sums, e.alpha, e.beta, e.gamma};
  entry_points<ActivationKernels>().run(in_place, 0, s.pixels * s.lanes);
}

/// The epilogue of sums that were not scaled by alpha yet; `add_residual` adds its residual.
template <class T, class S, class AddResidual>
[[gnu::noinline]] void apply_epilogue(const Epilogue& e, double alpha, const EpilogueSums<T>& s,
                                      const AddResidual& add_residual) {
  const ActivationRange<T> range(e);
  Epilogue without = e;
  without.mode = 0;
  const bool at_once = range.is_known && e.residual == nullptr;
  scale_sums<T, S>(e, alpha, s, at_once ? range : ActivationRange<T>(without));
  if (e.residual != nullptr) add_residual();
  if (!at_once && e.mode != 0) activate_sums(e, s);
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
