// Normalizations as rows: moments, then y; sums of the gradient, then dx; and as columns: dw and db.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/norm.h"

#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/skeletons/reduction.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

/// How results are stored.
struct Stores {
  explicit Stores(const NormJob& job) : non_temporal(job.non_temporal) {}
  Blend blend() const { return {1, 0, non_temporal}; }
  bool non_temporal;
};

/// Count, shift, and the sums of d and d^2, where d is the distance from the shift, a block's first element: no
/// division per element, and no cancellation beyond what that element contributes to the variance.
template <class T>
struct Moments : Stores {
  using Job = NormJob;
  using Stores::Stores;
  static constexpr int kReads = 1, kAccumulators = 4, kIndex = -1, kSums = 2;
  static constexpr Pivot kPivot = Pivot::kFirst;
  void start(Vec<T> (&acc)[4]) const { acc[0] = acc[1] = acc[2] = acc[3] = Vec<T>{}; }
  Vec<T> element(Vec<T> x) const { return x; }
  void add_to_sums(Vec<T> (&acc)[3], Vec<T> x) const {
    const Vec<T> d = x - acc[0];
    acc[1] = acc[1] + d;
    acc[2] = acc[2] + d * d;
  }
  void values_of(Vec<T> (&acc)[4], Vec<T> count, const Vec<T> (&sums)[3]) const {
    acc[0] = count;
    for (int k = 0; k < 3; ++k) acc[1 + k] = sums[k];
  }
  /// The shift becomes the mean of all, so that the sum of distances is 0.
  void merge(Vec<T> (&acc)[4], const Vec<T> (&later)[4]) const {
    const Vec<T> count = acc[0] + later[0], share = count > Vec<T>{} ? later[0] / count : Vec<T>{};
    const Vec<T> mean = mean_of(acc), difference = mean_of(later) - mean;
    acc[3] = squares_of(acc) + squares_of(later) + difference * difference * acc[0] * share;
    acc[1] = mean + difference * share;
    acc[2] = Vec<T>{};
    acc[0] = count;
  }

  template <class... P>
  Vec<T> apply(const Vec<T> (&values)[4], Vec<T> x, P... parameters) const {
    return scaled((x - values[0]) * values[1], parameters...);
  }
  static Vec<T> scaled(Vec<T> v) { return v; }
  static Vec<T> scaled(Vec<T> v, Vec<T> weight, Vec<T> bias) { return v * weight + bias; }

 private:
  static Vec<T> offset(const Vec<T> (&a)[4]) { return a[0] > Vec<T>{} ? a[2] / a[0] : Vec<T>{}; }
  static Vec<T> mean_of(const Vec<T> (&a)[4]) { return a[1] + offset(a); }
  static Vec<T> squares_of(const Vec<T> (&a)[4]) {
    const Vec<T> squares = a[3] - a[2] * offset(a);
    return squares < Vec<T>{} ? Vec<T>{} : squares;
  }
};

template <class T>
struct MomentsOfSum : Moments<T> {
  static constexpr int kReads = 2;
  using Moments<T>::Moments;
  Vec<T> element(Vec<T> x, Vec<T> x2) const { return x + x2; }
  void add_to_sums(Vec<T> (&acc)[3], Vec<T> x, Vec<T> x2) const { Moments<T>::add_to_sums(acc, x + x2); }
  template <class... P>
  Vec<T> apply(const Vec<T> (&values)[4], Vec<T> x, Vec<T> x2, P... parameters) const {
    return Moments<T>::apply(values, x + x2, parameters...);
  }
};

template <class T>
struct Squares : Stores {
  using Job = NormJob;
  using Stores::Stores;
  static constexpr int kReads = 1, kAccumulators = 1, kIndex = -1;
  void start(Vec<T> (&acc)[1]) const { acc[0] = Vec<T>{}; }
  void add(Vec<T> (&acc)[1], Vec<T>, Vec<T> x) const { acc[0] = acc[0] + x * x; }
  void merge(Vec<T> (&acc)[1], const Vec<T> (&later)[1]) const { acc[0] = acc[0] + later[0]; }
  Vec<T> apply(const Vec<T> (&values)[1], Vec<T> x) const { return x * values[0]; }
  Vec<T> apply(const Vec<T> (&values)[1], Vec<T> x, Vec<T> weight) const { return x * values[0] * weight; }
};

template <class T>
struct Gradient : Stores {
  using Job = NormJob;
  static constexpr int kReads = 2, kAccumulators = 2, kIndex = -1;
  explicit Gradient(const Job& job) : Stores(job), mean(static_cast<T>(job.mean)), rstd(static_cast<T>(job.rstd)) {}
  void start(Vec<T> (&acc)[2]) const { acc[0] = acc[1] = Vec<T>{}; }
  void add(Vec<T> (&acc)[2], Vec<T>, Vec<T> g, Vec<T> x) const {
    acc[0] = acc[0] + g;
    acc[1] = acc[1] + g * normalized(x);
  }
  void merge(Vec<T> (&acc)[2], const Vec<T> (&later)[2]) const {
    acc[0] = acc[0] + later[0];
    acc[1] = acc[1] + later[1];
  }
  Vec<T> apply(const Vec<T> (&values)[2], Vec<T> g, Vec<T> x) const {
    return (g - values[0] - normalized(x) * values[1]) * rstd;
  }
  Vec<T> normalized(Vec<T> x) const { return (x - mean) * rstd; }
  T mean, rstd;
};

template <class T>
struct WeightedGradient : Gradient<T> {
  static constexpr int kReads = 3;
  using Gradient<T>::Gradient;
  void add(Vec<T> (&acc)[2], Vec<T> index, Vec<T> dy, Vec<T> x, Vec<T> weight) const {
    Gradient<T>::add(acc, index, dy * weight, x);
  }
  Vec<T> apply(const Vec<T> (&values)[2], Vec<T> dy, Vec<T> x, Vec<T> weight) const {
    return Gradient<T>::apply(values, dy * weight, x);
  }
};

template <class T>
struct ParameterGradient {
  using Job = void;
  static constexpr int kReads = 4, kRowScalars = 2, kAccumulators = 2, kIndex = -1;
  void start(Vec<T> (&acc)[2]) const { acc[0] = acc[1] = Vec<T>{}; }
  void add(Vec<T> (&acc)[2], Vec<T>, Vec<T> dy, Vec<T> x, Vec<T> mean, Vec<T> rstd) const {
    acc[0] = acc[0] + dy * ((x - mean) * rstd);
    acc[1] = acc[1] + dy;
  }
  void merge(Vec<T> (&acc)[2], const Vec<T> (&later)[2]) const {
    acc[0] = acc[0] + later[0];
    acc[1] = acc[1] + later[1];
  }
};

template <class T>
struct WeightGradient {
  using Job = void;
  static constexpr int kReads = 3, kRowScalars = 1, kAccumulators = 1, kIndex = -1;
  void start(Vec<T> (&acc)[1]) const { acc[0] = Vec<T>{}; }
  void add(Vec<T> (&acc)[1], Vec<T>, Vec<T> dy, Vec<T> x, Vec<T> rstd) const { acc[0] = acc[0] + dy * (x * rstd); }
  void merge(Vec<T> (&acc)[1], const Vec<T> (&later)[1]) const { acc[0] = acc[0] + later[0]; }
};

template <class S>
using Arithmetic = std::conditional_t<__is_same(S, double), double, float>;

/// Calls body<S, P>() for the types of data and of parameters or statistics.
template <class Body>
auto with_types(DataType data, DataType other, const Body& body) {
  const bool mixed = other == DataType::kFloat;
  switch (data) {
    case DataType::kHalf:
      return mixed ? body.template operator()<Half, float>() : body.template operator()<Half, Half>();
    case DataType::kBFloat16:
      return mixed ? body.template operator()<Bfloat16, float>() : body.template operator()<Bfloat16, Bfloat16>();
    case DataType::kDouble: return body.template operator()<double, double>();
    default: return body.template operator()<float, float>();
  }
}

template <template <class> class F, class S, class... I>
const Reduction<>* kernel() {
  static constexpr Reduction<> kKernel = reduction<F, Arithmetic<S>, Types<I...>, Types<S>>();
  return &kKernel;
}
template <template <class> class F, class S, class... I>
const Reduction<>* sums() {
  static constexpr Reduction<> kKernel = reduction<F, Arithmetic<S>, Types<I...>>();
  return &kKernel;
}

const Reduction<>* forward(const NormVariant& v) {
  return with_types(v.data, v.affine ? v.parameters : v.data, [&]<class S, class P>() {
    if (v.rms) return v.affine ? kernel<Squares, S, S, P>() : kernel<Squares, S, S>();
    if (v.adds) return v.affine ? kernel<MomentsOfSum, S, S, S, P, P>() : kernel<MomentsOfSum, S, S, S>();
    return v.affine ? kernel<Moments, S, S, P, P>() : kernel<Moments, S, S>();
  });
}

const Reduction<>* gradient(const NormVariant& v) {
  return with_types(v.data, v.affine ? v.parameters : v.data, [&]<class S, class P>() {
    return v.affine ? kernel<WeightedGradient, S, S, S, P>() : kernel<Gradient, S, S, S>();
  });
}

const Reduction<>* parameter_gradient(const NormVariant& v) {
  return with_types(v.data, v.statistics, [&]<class S, class P>() {
    return v.rms ? sums<WeightGradient, S, S, S, P>() : sums<ParameterGradient, S, S, S, P, P>();
  });
}

template <class T>
struct Normalize {
  Vec<T> operator()(Vec<T> x, Vec<T> mean, Vec<T> scale) const { return (x - mean) * scale; }
  Vec<T> operator()(Vec<T> x, Vec<T> mean, Vec<T> scale, Vec<T> bias) const { return (x - mean) * scale + bias; }
};

void normalize(const NormVariant& v, const Run& run) {
  with_types(v.data, v.affine ? v.parameters : v.data, [&]<class S, class P>() {
    using T = Arithmetic<S>;
    const Blend blend{1, 0, v.non_temporal};
    if (v.affine) return map<T, Types<S, T, T, P>, Types<S>>(Normalize<T>{}, run, blend);
    map<T, Types<S, T, T>, Types<S>>(Normalize<T>{}, run, blend);
  });
}

}  // namespace

template <>
const NormKernels& entry_points<NormKernels>() {
  static constexpr NormKernels kKernels{
      .forward = forward, .gradient = gradient, .parameter_gradient = parameter_gradient, .normalize = normalize};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
