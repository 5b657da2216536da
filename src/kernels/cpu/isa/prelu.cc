// The gradient of the input of a parametric ReLU as a map, that of its weight as a reduction.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/prelu.h"

#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/skeletons/reduction.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

template <class S>
using Arithmetic = std::conditional_t<__is_same(S, double), double, float>;

template <class T>
struct InputGradient {
  Vec<T> operator()(Vec<T> x, Vec<T> weight, Vec<T> dy) const { return x > Vec<T>{} ? dy : weight * dy; }
};

template <class T>
struct WeightGradient {
  using Job = void;
  static constexpr int kReads = 2, kAccumulators = 1, kIndex = -1;
  void start(Vec<T> (&acc)[1]) const { acc[0] = Vec<T>{}; }
  void add(Vec<T> (&acc)[1], Vec<T>, Vec<T> x, Vec<T> dy) const {
    acc[0] = acc[0] + (x > Vec<T>{} ? Vec<T>{} : x * dy);
  }
  void merge(Vec<T> (&acc)[1], const Vec<T> (&later)[1]) const { acc[0] = acc[0] + later[0]; }
};

template <class S>
void input_of(const Run& run) {
  map<Arithmetic<S>, Types<S, S, S>, Types<S>>(InputGradient<Arithmetic<S>>{}, run);
}

void input(DataType type, const Run& run) {
  switch (type) {
    case DataType::kHalf: return input_of<Half>(run);
    case DataType::kBFloat16: return input_of<Bfloat16>(run);
    case DataType::kDouble: return input_of<double>(run);
    default: return input_of<float>(run);
  }
}

template <class S>
constexpr Reduction<> kWeight = reduction<WeightGradient, Arithmetic<S>, Types<S, S>>();

const Reduction<>& weight(DataType type) {
  switch (type) {
    case DataType::kHalf: return kWeight<Half>;
    case DataType::kBFloat16: return kWeight<Bfloat16>;
    case DataType::kDouble: return kWeight<double>;
    default: return kWeight<float>;
  }
}

}  // namespace

template <>
const PreluKernels& entry_points<PreluKernels>() {
  static constexpr PreluKernels kKernels{.input = input, .weight = weight};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
