// Softmax and its gradient. In columns the maximum and the sum of exponentials are reduced together, with one
// exponential for each element: where the maximum grows, the sum is scaled instead of the new element. In rows the
// maximum of a block comes first.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/softmax.h"

#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/skeletons/reduction.h"
#include "kernels/cpu/isa/skeletons/short_rows.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

struct Stored {
  explicit Stored(const Softmax& job) : how{job.scale, job.keep, job.non_temporal} {}
  Blend stores() const { return how; }
  Blend how;
};

template <class T>
struct Forward : Stored {
  using Job = Softmax;
  static constexpr int kReads = 1, kAccumulators = 2, kIndex = -1, kSums = 1;
  static constexpr Pivot kPivot = Pivot::kLargest;
  using Stored::Stored;

  T least() const { return __is_same(T, double) ? static_cast<T>(-__DBL_MAX__) : static_cast<T>(-__FLT_MAX__); }
  void start(Vec<T> (&acc)[2]) const {
    acc[0] = broadcast(least());
    acc[1] = Vec<T>{};
  }
  Vec<T> add_to_sums(Vec<T> (&acc)[2], Vec<T> x) const {
    const Vec<T> term = exp_of<T>(x - acc[0]);
    acc[1] = acc[1] + term;
    return term;
  }
  void values_of(Vec<T> (&acc)[2], Vec<T>, const Vec<T> (&sums)[2]) const {
    for (int k = 0; k < 2; ++k) acc[k] = sums[k];
  }
  void add(Vec<T> (&acc)[2], Vec<T>, Vec<T> x) const { merge(acc, {x, broadcast<T>(1)}); }
  /// An infinite maximum or a NaN makes the sum NaN, or leaves it to the caller.
  void merge(Vec<T> (&acc)[2], const Vec<T> (&later)[2]) const {
    const Vec<T> factor = exp_of_term<T>(-absolute<T>(later[0] - acc[0]));
    acc[1] = later[0] > acc[0] ? acc[1] * factor + later[1] : later[1] * factor + acc[1];
    acc[0] = larger_of<T>(later[0], acc[0]);
  }
  Vec<T> apply(const Vec<T> (&values)[2], Vec<T> x) const { return exp_of<T>(x - values[0]) * values[1]; }
};
template <class T>
struct OfTerms : Forward<T> {
  using Forward<T>::Forward;
  Vec<T> apply(const Vec<T> (&values)[2], Vec<T> term) const { return term * values[1]; }
};
template <class T>
struct LogForward : Forward<T> {
  using Forward<T>::Forward;
  Vec<T> apply(const Vec<T> (&values)[2], Vec<T> x) const { return (x - values[0]) - values[1]; }
};

template <class T, bool kLog>
struct BackwardOf : Stored {
  using Job = Softmax;
  static constexpr int kReads = 2, kAccumulators = 1, kIndex = -1;
  using Stored::Stored;

  void start(Vec<T> (&acc)[1]) const { acc[0] = Vec<T>{}; }
  void add(Vec<T> (&acc)[1], Vec<T>, Vec<T> y, Vec<T> dy) const {
    if constexpr (kLog)
      acc[0] = acc[0] + dy;
    else
      acc[0] = y * dy + acc[0];
  }
  void merge(Vec<T> (&acc)[1], const Vec<T> (&later)[1]) const { acc[0] = acc[0] + later[0]; }
  Vec<T> apply(const Vec<T> (&values)[1], Vec<T> y, Vec<T> dy) const {
    if constexpr (kLog) return dy - values[0] * exp_of<T>(y);
    return y * (dy - values[0]);
  }
};
template <class T>
using Backward = BackwardOf<T, false>;
template <class T>
using LogBackward = BackwardOf<T, true>;

template <class S>
using Arithmetic = std::conditional_t<__is_same(S, double), double, float>;
template <class S>
constexpr Reduction<> kForward = reduction<Forward, Arithmetic<S>, Types<S>, Types<S>, Forward, OfTerms>();
template <class S>
constexpr Reduction<> kLogForward = reduction<Forward, Arithmetic<S>, Types<S>, Types<S>, LogForward>();
template <template <class> class F, class S>
constexpr Reduction<> backward_kernel() {
  Reduction<> r = reduction<F, Arithmetic<S>, Types<S, S>, Types<S>>();
  r.finish_short = &ShortRows<F, Arithmetic<S>, Types<S, S>, Types<S>>::finish;
  return r;
}
template <template <class> class F, class S>
constexpr Reduction<> kBackward = backward_kernel<F, S>();

const Reduction<>* forward(DataType type, bool log) {
  switch (type) {
    case DataType::kFloat: return log ? &kLogForward<float> : &kForward<float>;
    case DataType::kHalf: return log ? &kLogForward<Half> : &kForward<Half>;
    case DataType::kBFloat16: return log ? &kLogForward<Bfloat16> : &kForward<Bfloat16>;
    case DataType::kDouble: return log ? &kLogForward<double> : &kForward<double>;
    default: return nullptr;
  }
}

const Reduction<>* backward(DataType type, bool log) {
  switch (type) {
    case DataType::kFloat: return log ? &kBackward<LogBackward, float> : &kBackward<Backward, float>;
    case DataType::kHalf: return log ? &kBackward<LogBackward, Half> : &kBackward<Backward, Half>;
    case DataType::kBFloat16: return log ? &kBackward<LogBackward, Bfloat16> : &kBackward<Backward, Bfloat16>;
    case DataType::kDouble: return log ? &kBackward<LogBackward, double> : &kBackward<Backward, double>;
    default: return nullptr;
  }
}

}  // namespace

template <>
const SoftmaxKernels& entry_points<SoftmaxKernels>() {
  static constexpr SoftmaxKernels kKernels{.forward = forward, .backward = backward};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
