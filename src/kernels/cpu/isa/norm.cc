// Normalizations as rows: moments, then y; sums of the gradient, then dx; and as columns: dw and db.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/norm.h"

#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/norm_gradient_sums.h"
#include "kernels/cpu/isa/skeletons/reduction.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

/// How results are stored.
struct Stores {
  explicit Stores(const NormJob& job) : how{job.non_temporal} {}
  Streaming stores() const { return how; }
  Streaming how;
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

/// Inputs: dy, x, the weight if affine, the mean unless RMS, and rstd.
template <class T, bool kRms, bool kAffine>
struct AnyGradient : Stores {
  using Job = NormJob;
  using Stores::Stores;
  static constexpr int kReads = 3 + (kAffine ? 1 : 0) + (kRms ? 0 : 1), kAccumulators = 2, kIndex = -1;
  void start(Vec<T> (&acc)[2]) const { acc[0] = acc[1] = Vec<T>{}; }
  template <class... X>
  void add(Vec<T> (&acc)[2], Vec<T>, X... x) const {
    const Element e(x...);
    acc[0] = acc[0] + e.g;
    acc[1] = acc[1] + e.g * e.normalized;
  }
  void merge(Vec<T> (&acc)[2], const Vec<T> (&later)[2]) const {
    acc[0] = acc[0] + later[0];
    acc[1] = acc[1] + later[1];
  }
  template <class... X>
  Vec<T> apply(const Vec<T> (&values)[2], X... x) const {
    const Element e(x...);
    return (e.g - values[0] - e.normalized * values[1]) * e.rstd;
  }

 private:
  struct Element {
    template <class... X>
    [[gnu::always_inline]] explicit Element(Vec<T> dy, Vec<T> x, X... others) {
      const Vec<T> other[] = {others...};
      constexpr std::size_t kRstd = sizeof...(X) - 1;
      g = kAffine ? dy * other[0] : dy;
      rstd = other[kRstd];
      if constexpr (!kRms) x = x - other[kRstd - 1];
      normalized = x * rstd;
    }
    Vec<T> g, normalized, rstd;
  };
};
template <class T>
using Gradient = AnyGradient<T, false, false>;
template <class T>
using WeightedGradient = AnyGradient<T, false, true>;
template <class T>
using RmsGradient = AnyGradient<T, true, false>;
template <class T>
using WeightedRmsGradient = AnyGradient<T, true, true>;

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
  const auto with = [&]<class S>(S*) {
    return with_other<S>(other, [&]<class P>() { return body.template operator()<S, P>(); });
  };
  switch (data) {
    case DataType::kHalf: return with(static_cast<Half*>(nullptr));
    case DataType::kBFloat16: return with(static_cast<Bfloat16*>(nullptr));
    case DataType::kDouble: return with(static_cast<double*>(nullptr));
    default: return with(static_cast<float*>(nullptr));
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
    return with_other<S>(v.statistics, [&]<class Q>() {
      if (v.rms) return v.affine ? kernel<WeightedRmsGradient, S, S, S, P, Q>() : kernel<RmsGradient, S, S, S, Q>();
      return v.affine ? kernel<WeightedGradient, S, S, S, P, Q, Q>() : kernel<Gradient, S, S, S, Q, Q>();
    });
  });
}

const Reduction<>* parameter_gradient(const NormVariant& v) {
  return with_types(v.data, v.statistics, [&]<class S, class P>() {
    return v.rms ? sums<WeightGradient, S, S, S, P>() : sums<ParameterGradient, S, S, S, P, P>();
  });
}

void gradient_sums(const NormVariant& v, const Run& run, double* values, i64 pitch, double* sums) {
  with_types(v.data, v.data,
             [&]<class S, class>() { GradientSums<S, Arithmetic<S>>(v, run).compute(values, pitch, sums); });
}

void gradient_of_short_rows(const NormVariant& v, const Run& run, double* sums) {
  with_types(v.data, v.data, [&]<class S, class>() { GradientSums<S, Arithmetic<S>>(v, run).compute_short(sums); });
}

void merge_columns(i64 of_group, i64 groups, const double* values, i64 pitch, double* merged, i64 merged_pitch) {
  const double count = values[0], share = 1 / count;
  for (i64 g = 0; g < groups; ++g, values += of_group) {
    const double pivot = values[pitch] + values[2 * pitch] * share;
    Vec<double> sums[2] = {};  // of distances of the columns' means from the first, and of squares
    for (i64 i = 0; i < of_group; i += kLanes<double>) {
      const int lanes = static_cast<int>(min_of<i64>(kLanes<double>, of_group - i));
      const auto of_columns = [&](i64 k) { return load_lanes(values + k * pitch + i, 0, lanes); };
      const Vec<double> counts = of_columns(0), sum = of_columns(2), offset = sum * share;  // 0 in other lanes
      const Vec<double> distance = of_columns(1) + offset - pivot, within = of_columns(3) - sum * offset;
      sums[0] = sums[0] + counts * distance;
      sums[1] = sums[1] + (within < Vec<double>{} ? Vec<double>{} : within) + counts * distance * distance;
    }
    merge_lanes<kLanes<double> / 2, double>(sums, [](auto& v, const auto& upper) {
      for (int k = 0; k < 2; ++k) v[k] = v[k] + upper[k];
    });
    const double all[] = {count * static_cast<double>(of_group), pivot, sums[0][0], sums[1][0]};
    for (int k = 0; k < 4; ++k) merged[k * merged_pitch + g] = all[k];
  }
}

void statistics(bool rms, double length, double epsilon, i64 n, double* values, i64 pitch) {
  const double share = 1 / length;
  for (i64 i = 0; i < n; i += kLanes<double>) {
    const int lanes = static_cast<int>(min_of<i64>(kLanes<double>, n - i));
    const auto of_rows = [&](i64 k) { return load_lanes(values + k * pitch + i, 0, lanes); };
    const Vec<double> zero{};
    Vec<double> mean{}, variance;
    if (rms) {
      variance = of_rows(0) * share;
    } else {
      const Vec<double> offset = of_rows(2) * share;
      mean = of_rows(1) + offset;
      variance = of_rows(3) * share - offset * offset;
      variance = variance < zero ? zero : variance;
    }
    const Vec<double> rstd = 1 / square_root(variance + epsilon);
    store_lanes(values + i, rms ? rstd : mean, lanes);
    store_lanes(values + pitch + i, rstd, lanes);
  }
}

template <class T>
struct Normalize {
  Vec<T> operator()(Vec<T> x, Vec<T> mean, Vec<T> scale) const { return (x - mean) * scale; }
  Vec<T> operator()(Vec<T> x, Vec<T> mean, Vec<T> scale, Vec<T> bias) const { return (x - mean) * scale + bias; }
};

void normalize(const NormVariant& v, const Run& run) {
  with_types(v.data, v.affine ? v.parameters : v.data, [&]<class S, class P>() {
    using T = Arithmetic<S>;
    const Streaming how{v.non_temporal};
    if (v.affine) return map<T, Types<S, T, T, P>, Types<S>>(Normalize<T>{}, run, how);
    map<T, Types<S, T, T>, Types<S>>(Normalize<T>{}, run, how);
  });
}

}  // namespace

template <>
const NormKernels& entry_points<NormKernels>() {
  static constexpr NormKernels kKernels{.forward = forward,
                                        .gradient = gradient,
                                        .parameter_gradient = parameter_gradient,
                                        .gradient_sums = gradient_sums,
                                        .gradient_of_short_rows = gradient_of_short_rows,
                                        .merge_columns = merge_columns,
                                        .statistics = statistics,
                                        .normalize = normalize};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
