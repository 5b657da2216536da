// The epilogue of depthwise convolutions, applied to sums in registers: range(alpha * scale * sum + bias).
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/depthwise.h"
#include "kernels/cpu/isa/apply_epilogue.h"
#include "kernels/cpu/vec.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {

/// T: the type of the sums. Channels count from the job's first result channel.
template <class T>
class DepthwiseEpilogue {
 public:
  explicit DepthwiseEpilogue(const Depthwise& job)
      : range(job.epilogue == nullptr ? Epilogue{} : *job.epilogue), e_(job.epilogue), job_(job) {}

  explicit operator bool() const { return e_ != nullptr; }
  T scale(i64 channel) const {
    return static_cast<T>(job_.alpha) * ChannelValues<T, T>(*e_).scale(job_.epilogue_channel + channel);
  }
  T bias(i64 channel) const {
    return with_storage<T>(e_->y.dtype,
                           [&]<class S>(S*) { return ChannelValues<S, T>(*e_).bias(job_.epilogue_channel + channel); });
  }
  /// The terms of channels [first, first + count) in the first lanes of vectors.
  void load(i64 first, i64 count, Vec<T>& scales, Vec<T>& biases) const {
    scales = biases = Vec<T>{};
    for (i64 l = 0; l < count; ++l) {
      scales[l] = scale(first + l);
      biases[l] = bias(first + l);
    }
  }

  const ActivationRange<T> range;

 private:
  const Epilogue* e_;
  const Depthwise& job_;
};

/// Applies the epilogue to vertically adjacent results of one vector of channels, or of one plane.
template <int kRows, class T>
[[gnu::always_inline]] inline void finish_rows(Vec<T> (&sums)[kRows], Vec<T> scale, Vec<T> bias,
                                               const ActivationRange<T>& range) {
#pragma GCC unroll 16
  for (int j = 0; j < kRows; ++j) sums[j] = sums[j] * scale + bias;
  constexpr T kInfinity = static_cast<T>(__builtin_inf());
  const Vec<T> low = broadcast(range.low), high = broadcast(range.high);
  if (range.high < kInfinity) {
#pragma GCC unroll 16
    for (int j = 0; j < kRows; ++j) sums[j] = smaller_of<T>(high, sums[j]);
  }
  if (range.low > -kInfinity) {
#pragma GCC unroll 16
    for (int j = 0; j < kRows; ++j) sums[j] = larger_of<T>(low, sums[j]);  // NaN stays
  }
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
