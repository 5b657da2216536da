// Batch normalisation: the moments of a batch and the sums of the gradient as reductions, with their second passes.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/batch_norm.h"

#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/math_functions.h"
#include "kernels/cpu/isa/skeletons/reduction.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

template <class S>
using Arithmetic = std::conditional_t<__is_same(S, double), double, float>;

/// What every functor has: how results are stored, and the range of the activation.
template <class T>
struct Shared {
  using Job = BatchNormJob;
  explicit Shared(const Job& job)
      : low(static_cast<T>(job.low)), high(static_cast<T>(job.high)), stored{job.scale, job.keep, job.non_temporal} {}
  Blend stores() const { return stored; }
  /// NaN stays NaN.
  Vec<T> activated(Vec<T> v) const { return larger_of<T>(broadcast(low), smaller_of<T>(broadcast(high), v)); }
  Vec<T> normalised(Vec<T> x, Vec<T> mean, Vec<T> factor, Vec<T> bias) const { return (x - mean) * factor + bias; }
  T low, high;
  Blend stored;
};

/// Sums of differences from the first element of a block: they are as large as the deviation, whatever the mean.
template <class T>
struct Training : Shared<T> {
  static constexpr int kReads = 1, kAccumulators = 4, kIndex = -1, kSums = 2;
  static constexpr Pivot kPivot = Pivot::kFirst;
  using Shared<T>::Shared;
  void start(Vec<T> (&acc)[4]) const { acc[0] = acc[1] = acc[2] = acc[3] = Vec<T>{}; }
  Vec<T> element(Vec<T> x) const { return x; }
  void add_to_sums(Vec<T> (&acc)[3], Vec<T> x) const {
    const Vec<T> difference = x - acc[0];
    acc[1] = acc[1] + difference;
    acc[2] = acc[2] + difference * difference;
  }
  void values_of(Vec<T> (&acc)[4], Vec<T> count, const Vec<T> (&sums)[3]) const {
    acc[0] = count;
    for (int k = 0; k < 3; ++k) acc[1 + k] = sums[k];
  }
  void merge(Vec<T> (&acc)[4], const Vec<T> (&later)[4]) const {
    acc[1] = acc[0] > Vec<T>{} ? acc[1] : later[1];
    const Vec<T> distance = later[0] > Vec<T>{} ? later[1] - acc[1] : Vec<T>{};
    acc[3] = acc[3] + later[3] + distance * (later[2] * 2 + later[0] * distance);
    acc[2] = acc[2] + later[2] + later[0] * distance;
    acc[0] = acc[0] + later[0];
  }
  Vec<T> apply(const Vec<T> (&values)[4], Vec<T> x) const {
    return this->activated(this->normalised(x, values[0], values[1], values[2]));
  }
};

template <class T>
struct Inference : Shared<T> {
  using Shared<T>::Shared;
  Vec<T> operator()(Vec<T> x, Vec<T> mean, Vec<T> factor, Vec<T> bias) const {
    return this->activated(this->normalised(x, mean, factor, bias));
  }
};

template <class T>
struct Backward : Shared<T> {
  static constexpr int kReads = 3, kAccumulators = 3, kIndex = -1;
  using Shared<T>::Shared;
  void start(Vec<T> (&acc)[3]) const { acc[0] = acc[1] = acc[2] = Vec<T>{}; }
  void add(Vec<T> (&acc)[3], Vec<T>, Vec<T> x, Vec<T> dy, Vec<T> mean) const {
    acc[0] = acc[0] + dy;
    acc[1] = acc[1] + dy * (x - mean);
  }
  void merge(Vec<T> (&acc)[3], const Vec<T> (&later)[3]) const {
    acc[0] = acc[0] + later[0];
    acc[1] = acc[1] + later[1];
  }
  Vec<T> apply(const Vec<T> (&values)[3], Vec<T> x, Vec<T> dy, Vec<T> mean) const {
    return dy * values[0] + (x - mean) * values[1] + values[2];
  }
};

template <class T>
struct GatedBackward : Backward<T> {
  static constexpr int kReads = 5;
  using Backward<T>::Backward;
  Vec<T> gated(Vec<T> x, Vec<T> dy, Vec<T> mean, Vec<T> factor, Vec<T> bias) const {
    const Vec<T> v = this->normalised(x, mean, factor, bias);
    return ((v > broadcast(this->low)) & (v <= broadcast(this->high))) ? dy : Vec<T>{};
  }
  void add(Vec<T> (&acc)[3], Vec<T> index, Vec<T> x, Vec<T> dy, Vec<T> mean, Vec<T> factor, Vec<T> bias) const {
    Backward<T>::add(acc, index, x, gated(x, dy, mean, factor, bias), mean);
  }
  Vec<T> apply(const Vec<T> (&values)[3], Vec<T> x, Vec<T> dy, Vec<T> mean, Vec<T> factor, Vec<T> bias) const {
    return Backward<T>::apply(values, x, gated(x, dy, mean, factor, bias), mean);
  }
};

template <class S, class T = Arithmetic<S>>
constexpr Reduction<> kTraining = reduction<Training, T, Types<S>, Types<S>>();

const Reduction<>* training(DataType x) {
  switch (x) {
    case DataType::kFloat: return &kTraining<float>;
    case DataType::kHalf: return &kTraining<Half>;
    case DataType::kBFloat16: return &kTraining<Bfloat16>;
    default: return &kTraining<double>;
  }
}

/// Calls body(first, lanes) for vectors of n rows.
template <class Body>
void each_vector(i64 n, const Body& body) {
  for (i64 i = 0; i < n; i += kLanes<double>) body(i, static_cast<int>(min_of<i64>(kLanes<double>, n - i)));
}

Vec<double> inverse_of(Vec<double> variance, double epsilon) { return 1 / square_root(variance + epsilon); }

void moments(double epsilon, i64 n, double* values, i64 pitch) {
  const double count = values[0], share = 1 / count, unbiased = 1 / max_of(count - 1, 1.0);
  each_vector(n, [&](i64 i, int lanes) {
    const auto of_rows = [&](i64 k) { return load_lanes(values + k * pitch + i, 0, lanes); };
    const Vec<double> sum = of_rows(2), offset = sum * share, difference = of_rows(3) - sum * offset;
    const Vec<double> squares = difference < Vec<double>{} ? Vec<double>{} : difference;
    store_lanes(values + i, of_rows(1) + offset, lanes);
    store_lanes(values + pitch + i, inverse_of(squares * share, epsilon), lanes);
    store_lanes(values + 2 * pitch + i, squares * unbiased, lanes);
  });
}

void inverses(double epsilon, i64 n, double* variances) {
  each_vector(n, [&](i64 i, int lanes) {
    store_lanes(variances + i, inverse_of(load_lanes(variances + i, 0, lanes), epsilon), lanes);
  });
}

template <class S>
void infer(const BatchNormJob& job, const Run& run) {
  using T = Arithmetic<S>;
  const Inference<T> f(job);
  map<T, Types<S, T, T, T>, Types<S>>(f, run, f.stores());
}

void inference(const BatchNormJob& job, const Run& run) {
  switch (job.type) {
    case DataType::kFloat: return infer<float>(job, run);
    case DataType::kHalf: return infer<Half>(job, run);
    case DataType::kBFloat16: return infer<Bfloat16>(job, run);
    default: return infer<double>(job, run);
  }
}

template <class X, class Y, class T = Arithmetic<X>>
constexpr Reduction<> kPlain = reduction<Backward, T, Types<X, Y, T>, Types<Y>>();
template <class X, class Y, class T = Arithmetic<X>>
constexpr Reduction<> kGated = reduction<GatedBackward, T, Types<X, Y, T, T, T>, Types<Y>>();

template <class X, class Y>
const Reduction<>* backward_of(bool gated) {
  return gated ? &kGated<X, Y> : &kPlain<X, Y>;
}

const Reduction<>* backward(DataType x, DataType dy, bool gated) {
  const bool narrow = x == dy;
  switch (x) {
    case DataType::kFloat: return backward_of<float, float>(gated);
    case DataType::kHalf: return narrow ? backward_of<Half, Half>(gated) : backward_of<Half, float>(gated);
    case DataType::kBFloat16:
      return narrow ? backward_of<Bfloat16, Bfloat16>(gated) : backward_of<Bfloat16, float>(gated);
    default: return backward_of<double, double>(gated);
  }
}

}  // namespace

template <>
const BatchNormKernels& entry_points<BatchNormKernels>() {
  static constexpr BatchNormKernels kKernels{
      .training = training, .moments = moments, .inverses = inverses, .inference = inference, .backward = backward};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
