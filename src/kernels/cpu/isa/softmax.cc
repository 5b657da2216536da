// Softmax and its gradient. The maximum and the sum of exponentials are reduced together, with one exponential for each
// element: where the maximum grows, the sum is scaled instead of the new element.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/softmax.h"

#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/skeletons/reduction.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

/// e^x for x <= 0, where results below the least normal number may be that number: terms of a sum that is 1 or more.
template <class T>
Vec<T> exp_of_term(Vec<T> x) {
  const Vec<T> low = broadcast<T>(__is_same(T, double) ? -708 : -87);
  const Reduced<T> e = reduce<T>(x < low ? low : x);  // NaN stays
  const Vec<T> scale = power_of_two<T>(e.n);
  return e.p * scale + scale;
}

struct Stored {
  explicit Stored(const Softmax& job) : how{job.scale, job.keep, job.non_temporal} {}
  Blend blend() const { return how; }
  Blend how;
};

template <class T, bool kLog>
struct ForwardOf : Stored {
  using Job = Softmax;
  static constexpr int kReads = 1, kAccumulators = 2, kIndex = -1;
  using Stored::Stored;

  void start(Vec<T> (&acc)[2]) const {
    acc[0] = broadcast(__is_same(T, double) ? static_cast<T>(-__DBL_MAX__) : static_cast<T>(-__FLT_MAX__));
    acc[1] = Vec<T>{};
  }
  void add(Vec<T> (&acc)[2], Vec<T>, Vec<T> x) const { merge(acc, {x, broadcast<T>(1)}); }
  /// An infinite maximum or a NaN makes the sum NaN, or leaves it to the caller.
  void merge(Vec<T> (&acc)[2], const Vec<T> (&later)[2]) const {
    const Vec<T> factor = exp_of_term<T>(-absolute<T>(later[0] - acc[0]));
    const auto grows = later[0] > acc[0];
    acc[1] = grows ? acc[1] * factor + later[1] : later[1] * factor + acc[1];
    acc[0] = grows ? later[0] : acc[0];
  }
  Vec<T> apply(const Vec<T> (&values)[2], Vec<T> x) const {
    if constexpr (kLog) return (x - values[0]) - values[1];
    return exp_of<T>(x - values[0]) * values[1];
  }
};
template <class T>
using Forward = ForwardOf<T, false>;
template <class T>
using LogForward = ForwardOf<T, true>;

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

/// `Inputs`: Types<S> or Types<S, S>.
template <template <class> class F, class S, class... I>
constexpr Reduction<> kReduction =
    reduction<F, std::conditional_t<__is_same(S, double), double, float>, Types<I...>, Types<S>>();

template <template <class> class F, template <class> class Log, class S, class... I>
const Reduction<>* choose(bool log) {
  return log ? &kReduction<Log, S, I...> : &kReduction<F, S, I...>;
}

const Reduction<>* forward(DataType type, bool log) {
  switch (type) {
    case DataType::kFloat: return choose<Forward, LogForward, float, float>(log);
    case DataType::kHalf: return choose<Forward, LogForward, Half, Half>(log);
    case DataType::kBFloat16: return choose<Forward, LogForward, Bfloat16, Bfloat16>(log);
    case DataType::kDouble: return choose<Forward, LogForward, double, double>(log);
    default: return nullptr;
  }
}

const Reduction<>* backward(DataType type, bool log) {
  switch (type) {
    case DataType::kFloat: return choose<Backward, LogBackward, float, float, float>(log);
    case DataType::kHalf: return choose<Backward, LogBackward, Half, Half, Half>(log);
    case DataType::kBFloat16: return choose<Backward, LogBackward, Bfloat16, Bfloat16, Bfloat16>(log);
    case DataType::kDouble: return choose<Backward, LogBackward, double, double, double>(log);
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
