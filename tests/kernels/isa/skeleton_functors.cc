// SPDX-License-Identifier: MIT
#include "kernels/isa/skeleton_functors.h"

#include "kernels/cpu/isa/skeletons/reduction.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

using test::SkeletonJob;

template <class T>
struct Softmax {
  using Job = void;
  static constexpr int kReads = 1, kAccumulators = 2, kIndex = -1;
  void start(Vec<T> (&acc)[2]) const {
    acc[0] = broadcast(static_cast<T>(-3e38));
    acc[1] = Vec<T>{};
  }
  void add(Vec<T> (&acc)[2], Vec<T>, Vec<T> x) const {
    const Vec<T> later[2] = {x, broadcast<T>(1)};
    merge(acc, later);
  }
  void merge(Vec<T> (&acc)[2], const Vec<T> (&later)[2]) const {
    const Vec<T> most = acc[0] > later[0] ? acc[0] : later[0];
    acc[1] = acc[1] * exp_of<T>(acc[0] - most) + later[1] * exp_of<T>(later[0] - most);
    acc[0] = most;
  }
  Vec<T> apply(const Vec<T> (&values)[2], Vec<T> x) const { return exp_of<T>(x - values[0]) / values[1]; }
};

/// Welford's count, mean and sum of squared deviations.
template <class T>
struct Moments {
  using Job = void;
  static constexpr int kReads = 1, kAccumulators = 3, kIndex = -1;
  void start(Vec<T> (&acc)[3]) const { acc[0] = acc[1] = acc[2] = Vec<T>{}; }
  void add(Vec<T> (&acc)[3], Vec<T>, Vec<T> x) const {
    const Vec<T> difference = x - acc[1];
    acc[0] = acc[0] + 1;
    acc[1] = acc[1] + difference / acc[0];
    acc[2] = acc[2] + difference * (x - acc[1]);
  }
  void merge(Vec<T> (&acc)[3], const Vec<T> (&later)[3]) const {
    const Vec<T> count = acc[0] + later[0], difference = later[1] - acc[1];
    const Vec<T> share = count > Vec<T>{} ? later[0] / count : Vec<T>{};
    acc[1] = acc[1] + difference * share;
    acc[2] = acc[2] + later[2] + difference * difference * acc[0] * share;
    acc[0] = count;
  }
  Vec<T> apply(const Vec<T> (&values)[3], Vec<T> x, Vec<T> w) const { return (x - values[1]) * w; }
};

template <class T>
struct Argmax {
  using Job = void;
  static constexpr int kReads = 1, kAccumulators = 2, kIndex = 1;
  void start(Vec<T> (&acc)[2]) const {
    acc[0] = broadcast(static_cast<T>(-__builtin_inf()));
    acc[1] = broadcast(static_cast<T>(1e30));
  }
  void add(Vec<T> (&acc)[2], Vec<T> index, Vec<T> x) const {
    const Vec<T> later[2] = {x, index};
    merge(acc, later);
  }
  void merge(Vec<T> (&acc)[2], const Vec<T> (&later)[2]) const {
    const auto wins = (later[0] > acc[0]) | ((later[0] == acc[0]) & (later[1] < acc[1]));
    acc[0] = wins ? later[0] : acc[0];
    acc[1] = wins ? later[1] : acc[1];
  }
};

template <class T>
struct SumAndLargest {
  using Job = SkeletonJob;
  static constexpr int kReads = 2, kAccumulators = 2, kIndex = -1;
  explicit SumAndLargest(const Job& job) : factor(static_cast<T>(job.factor)) {}
  void start(Vec<T> (&acc)[2]) const { acc[0] = acc[1] = Vec<T>{}; }
  void add(Vec<T> (&acc)[2], Vec<T>, Vec<T> x, Vec<T> y) const {
    const Vec<T> later[2] = {x * factor, absolute<T>(y)};
    merge(acc, later);
  }
  void merge(Vec<T> (&acc)[2], const Vec<T> (&later)[2]) const {
    acc[0] = acc[0] + later[0];
    acc[1] = acc[1] > later[1] ? acc[1] : later[1];
  }
  T factor;
};

/// The factor's multiple of the sum of x times a number that its row of columns has.
template <class T>
struct Weighted {
  using Job = SkeletonJob;
  static constexpr int kReads = 2, kRowScalars = 1, kAccumulators = 1, kIndex = -1;
  explicit Weighted(const Job& job) : factor(static_cast<T>(job.factor)) {}
  void start(Vec<T> (&acc)[1]) const { acc[0] = Vec<T>{}; }
  void add(Vec<T> (&acc)[1], Vec<T>, Vec<T> x, Vec<T> y) const { acc[0] = acc[0] + x * y * factor; }
  void merge(Vec<T> (&acc)[1], const Vec<T> (&later)[1]) const { acc[0] = acc[0] + later[0]; }
  Vec<T> apply(const Vec<T> (&values)[1], Vec<T> x, Vec<T>) const { return x * factor + values[0]; }
  T factor;
};

const Reduction<>* softmax(DataType type) {
  static constexpr Reduction<> kFloat = reduction<Softmax, float, Types<float>, Types<float>>(),
                               kHalf = reduction<Softmax, float, Types<Half>, Types<float>>(),
                               kBfloat16 = reduction<Softmax, float, Types<Bfloat16>, Types<Bfloat16>>();
  switch (type) {
    case DataType::kFloat: return &kFloat;
    case DataType::kHalf: return &kHalf;
    case DataType::kBFloat16: return &kBfloat16;
    default: return nullptr;
  }
}

const Reduction<>* moments(DataType type) {
  static constexpr Reduction<> kFloat = reduction<Moments, float, Types<float, float>, Types<float>>(),
                               kBfloat16 = reduction<Moments, float, Types<Bfloat16, float>, Types<Bfloat16>>(),
                               kDouble = reduction<Moments, double, Types<double, float>, Types<double>>();
  switch (type) {
    case DataType::kFloat: return &kFloat;
    case DataType::kBFloat16: return &kBfloat16;
    case DataType::kDouble: return &kDouble;
    default: return nullptr;
  }
}

const Reduction<>* argmax(DataType type) {
  static constexpr Reduction<> kFloat = reduction<Argmax, float, Types<float>>(),
                               kHalf = reduction<Argmax, float, Types<Half>>(),
                               kInt32 = reduction<Argmax, double, Types<std::int32_t>>();
  switch (type) {
    case DataType::kFloat: return &kFloat;
    case DataType::kHalf: return &kHalf;
    case DataType::kInt32: return &kInt32;
    default: return nullptr;
  }
}

const Reduction<>* sum_and_largest(DataType type) {
  static constexpr Reduction<> kFloat = reduction<SumAndLargest, double, Types<float, float>>(),
                               kHalf = reduction<SumAndLargest, double, Types<Half, float>>(),
                               kBfloat16 = reduction<SumAndLargest, double, Types<Bfloat16, float>>();
  switch (type) {
    case DataType::kFloat: return &kFloat;
    case DataType::kHalf: return &kHalf;
    case DataType::kBFloat16: return &kBfloat16;
    default: return nullptr;
  }
}

const Reduction<>* weighted() {
  static constexpr Reduction<> kDouble = reduction<Weighted, double, Types<Half, float>, Types<double>>();
  return &kDouble;
}

template <class T>
struct TwoOutputs {
  Vectors<T, 2> operator()(Vec<T> a, Vec<T> b) const { return {{a * factor + b, a > b ? a : b}}; }
  T factor;
};

void two_outputs(DataType type, const SkeletonJob& job, const Run& run) {
  const auto factor = static_cast<float>(job.factor);
  switch (type) {
    case DataType::kHalf: return map<float, Types<Half, float>, Types<float, Half>>(TwoOutputs<float>{factor}, run);
    case DataType::kBFloat16:
      return map<float, Types<Bfloat16, float>, Types<float, Bfloat16>>(TwoOutputs<float>{factor}, run);
    case DataType::kInt8:
      return map<float, Types<std::int8_t, float>, Types<float, std::int8_t>>(TwoOutputs<float>{factor}, run);
    case DataType::kDouble:
      return map<double, Types<double, float>, Types<float, double>>(TwoOutputs<double>{job.factor}, run);
    default: return map<float, Types<float, float>, Types<float, float>>(TwoOutputs<float>{factor}, run);
  }
}

struct Quantize {
  Vec<double> operator()(Vec<double> a) const { return a * factor; }
  double factor;
};

void quantize(const SkeletonJob& job, const Run& run) {
  map<double, Types<std::int32_t>, Types<std::int8_t>>(Quantize{job.factor}, run);
}

struct Same {
  Vec<float> operator()(Vec<float> a) const { return a; }
};

void round(DataType type, bool non_temporal, const Run& run) {
  if (type == DataType::kHalf) return map<float, Types<float>, Types<Half>>(Same{}, run, Streaming{non_temporal});
  map<float, Types<float>, Types<Bfloat16>>(Same{}, run, Streaming{non_temporal});
}

}  // namespace

template <>
const test::SkeletonKernels& entry_points<test::SkeletonKernels>() {
  static constexpr test::SkeletonKernels kKernels{.softmax = softmax,
                                                  .moments = moments,
                                                  .argmax = argmax,
                                                  .sum_and_largest = sum_and_largest,
                                                  .weighted = weighted,
                                                  .two_outputs = two_outputs,
                                                  .quantize = quantize,
                                                  .round = round};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
