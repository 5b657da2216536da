// Binary operations as maps, and the sum that the gradient of a bias is.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/tensor_ops.h"

#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/skeletons/reduction.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

using Function = BinaryFunction;

/// A product that no multiply-add contracts with the sum that follows.
template <class T>
Vec<T> rounded_product(Vec<T> v, T factor) {
  v = v * factor;
  hold(v);
  return v;
}

template <Function kFunction, class T>
struct Combine {
  Vec<T> operator()(Vec<T> a) const { return rounded_product<T>(a, alpha1); }
  Vec<T> operator()(Vec<T> a, Vec<T> b) const {
    const Vec<T> p = rounded_product<T>(a, alpha1), q = rounded_product<T>(b, alpha2);
    if constexpr (kFunction == Function::kAdd) return p + q;
    if constexpr (kFunction == Function::kMul) return p * q;
    if constexpr (kFunction == Function::kMin) return q < p ? q : p;
    return p < q ? q : p;
  }
  T alpha1, alpha2;
};

/// Combine, plus beta times the old output.
template <Function kFunction, class T>
struct Accumulate {
  Vec<T> operator()(Vec<T> a, Vec<T> old) const { return sum(combine(a), old); }
  Vec<T> operator()(Vec<T> a, Vec<T> b, Vec<T> old) const { return sum(combine(a, b), old); }
  Vec<T> sum(Vec<T> v, Vec<T> old) const {
    hold(v);
    return v + rounded_product<T>(old, beta);
  }
  Combine<kFunction, T> combine;
  T beta;
};

template <Function kFunction, class S, class Out>
void compute(const Binary& job, const Run& run) {
  using T = std::conditional_t<__is_same(S, double), double, float>;
  const Combine<kFunction, T> combine{static_cast<T>(job.alpha1), static_cast<T>(job.alpha2)};
  const Accumulate<kFunction, T> accumulate{combine, static_cast<T>(job.beta)};
  constexpr bool kUnary = kFunction == Function::kFirst;
  Run with_output = run;
  constexpr std::size_t kOld = kUnary ? 1 : 2;
  with_output.in[kOld] = run.out[0];
  with_output.in_row_bytes[kOld] = run.out_row_bytes[0];
  if constexpr (kUnary) {
    if (job.beta == 0) return map<T, Types<S>, Types<Out>>(combine, run);
    map<T, Types<S, Out>, Types<Out>>(accumulate, with_output);
  } else {
    if (job.beta == 0) return map<T, Types<S, S>, Types<Out>>(combine, run);
    map<T, Types<S, S, Out>, Types<Out>>(accumulate, with_output);
  }
}

template <class S>
BinaryKernel kernel_of(Function function) {
  switch (function) {
    case Function::kAdd: return &compute<Function::kAdd, S, S>;
    case Function::kMul: return &compute<Function::kMul, S, S>;
    case Function::kMin: return &compute<Function::kMin, S, S>;
    case Function::kMax: return &compute<Function::kMax, S, S>;
    default: return &compute<Function::kFirst, S, S>;
  }
}

/// kFirst from S to another type than S.
template <class S>
BinaryKernel conversion(DataType out) {
  switch (out) {
    case DataType::kFloat: return &compute<Function::kFirst, S, float>;
    case DataType::kHalf: return &compute<Function::kFirst, S, Half>;
    case DataType::kBFloat16: return &compute<Function::kFirst, S, Bfloat16>;
    default: return nullptr;
  }
}

template <class T>
struct Sum {
  using Job = void;
  static constexpr int kReads = 1, kAccumulators = 1, kIndex = -1, kElementsPerLane = 64;
  void start(Vec<T> (&acc)[1]) const { acc[0] = Vec<T>{}; }
  void add(Vec<T> (&acc)[1], Vec<T>, Vec<T> x) const { acc[0] = acc[0] + x; }
  void merge(Vec<T> (&acc)[1], const Vec<T> (&later)[1]) const { acc[0] = acc[0] + later[0]; }
};

template <class S>
constexpr Reduction<> kSum = reduction<Sum, std::conditional_t<__is_same(S, double), double, float>, Types<S>>();

BinaryKernel binary(const Binary& job) {
  const bool converts = job.in != job.out;
  if (converts && job.function != Function::kFirst) return nullptr;
  switch (job.in) {
    case DataType::kFloat: return converts ? conversion<float>(job.out) : kernel_of<float>(job.function);
    case DataType::kHalf: return converts ? conversion<Half>(job.out) : kernel_of<Half>(job.function);
    case DataType::kBFloat16: return converts ? conversion<Bfloat16>(job.out) : kernel_of<Bfloat16>(job.function);
    case DataType::kDouble: return converts ? nullptr : kernel_of<double>(job.function);
    default: return nullptr;
  }
}

const Reduction<>* sum(DataType type) {
  switch (type) {
    case DataType::kFloat: return &kSum<float>;
    case DataType::kHalf: return &kSum<Half>;
    case DataType::kBFloat16: return &kSum<Bfloat16>;
    case DataType::kDouble: return &kSum<double>;
    default: return nullptr;
  }
}

}  // namespace

template <>
const TensorOpsKernels& entry_points<TensorOpsKernels>() {
  static constexpr TensorOpsKernels kKernels{.binary = binary, .sum = sum};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
