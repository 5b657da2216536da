// Adam and its relatives as a map.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/optimizer.h"

#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/math_functions.h"
#include "kernels/cpu/isa/skeletons/map.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

template <class T, bool kKeepsMax, bool kCopies>
struct Adam {
  static constexpr int kOutputs = 3 + (kKeepsMax ? 1 : 0) + (kCopies ? 1 : 0);

  explicit Adam(const AdamStep& s)
      : gradient(static_cast<T>(s.gradient)),
        l2(static_cast<T>(s.l2)),
        keep_mean(static_cast<T>(s.keep_mean)),
        add_mean(static_cast<T>(s.add_mean)),
        keep_square(static_cast<T>(s.keep_square)),
        add_square(static_cast<T>(s.add_square)),
        correction(static_cast<T>(s.correction)),
        eps(static_cast<T>(s.eps)),
        size(static_cast<T>(s.size)),
        before(static_cast<T>(s.before)),
        after(static_cast<T>(s.after)),
        skip(s.skip) {}

  Vectors<T, kOutputs> operator()(Vec<T> p, Vec<T> g, Vec<T> m, Vec<T> v) const { return (*this)(p, g, m, v, v); }
  Vectors<T, kOutputs> operator()(Vec<T> p, Vec<T> g, Vec<T> m, Vec<T> v, Vec<T> max) const {
    if (skip) return outputs(p, m, v, max);
    g = g * gradient;
    if (l2 != 0) g = g + p * l2;
    m = m * keep_mean + g * add_mean;
    v = v * keep_square + g * g * add_square;
    max = v > max || v != v ? v : max;
    const Vec<T> root = square_root(kKeepsMax ? max : v);
    return outputs((p * before - m * size / (root * correction + eps)) * after, m, v, max);
  }
  Vectors<T, kOutputs> outputs(Vec<T> p, Vec<T> m, Vec<T> v, Vec<T> max) const {
    Vectors<T, kOutputs> all{{p, m, v}};
    if constexpr (kKeepsMax) all.v[3] = max;
    if constexpr (kCopies) all.v[kOutputs - 1] = p;
    return all;
  }

  T gradient, l2, keep_mean, add_mean, keep_square, add_square, correction, eps, size, before, after;
  bool skip;
};

/// P: type of all operands but the gradient, whose type is G.
template <class P, class G, bool kKeepsMax, bool kCopies>
void adam(const AdamStep& step, const Run& run) {
  using T = std::conditional_t<__is_same(P, double), double, float>;
  const Adam<T, kKeepsMax, kCopies> f(step);
  if constexpr (kKeepsMax && kCopies)
    map<T, Types<P, G, P, P, P>, Types<P, P, P, P, Half>>(f, run);
  else if constexpr (kKeepsMax)
    map<T, Types<P, G, P, P, P>, Types<P, P, P, P>>(f, run);
  else if constexpr (kCopies)
    map<T, Types<P, G, P, P>, Types<P, P, P, Half>>(f, run);
  else
    map<T, Types<P, G, P, P>, Types<P, P, P>>(f, run);
}

template <class P, class G>
AdamKernel kernel_of(const AdamTypes& t) {
  if constexpr (!__is_same(P, double))
    if (t.copies) return t.keeps_max ? &adam<P, G, true, true> : &adam<P, G, false, true>;
  if (t.copies) return nullptr;
  return t.keeps_max ? &adam<P, G, true, false> : &adam<P, G, false, false>;
}

AdamKernel adam_kernel(const AdamTypes& t) {
  if (t.parameter == DataType::kFloat) {
    switch (t.gradient) {
      case DataType::kFloat: return kernel_of<float, float>(t);
      case DataType::kHalf: return kernel_of<float, Half>(t);
      case DataType::kBFloat16: return kernel_of<float, Bfloat16>(t);
      default: return nullptr;
    }
  }
  if (t.parameter != t.gradient) return nullptr;
  switch (t.parameter) {
    case DataType::kHalf: return kernel_of<Half, Half>(t);
    case DataType::kBFloat16: return kernel_of<Bfloat16, Bfloat16>(t);
    case DataType::kDouble: return kernel_of<double, double>(t);
    default: return nullptr;
  }
}

}  // namespace

template <>
const OptimizerKernels& entry_points<OptimizerKernels>() {
  static constexpr OptimizerKernels kKernels{.adam = adam_kernel};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
