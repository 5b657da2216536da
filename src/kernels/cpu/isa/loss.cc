// Losses: maps and sums.
// SPDX-License-Identifier: MIT
#include "kernels/cpu/loss.h"

#include "kernels/cpu/isa/isa_namespaces.h"
#include "kernels/cpu/isa/skeletons/reduction.h"

namespace polymio::kernels::POLYMIO_ISA_NAMESPACE {
namespace {

template <class S>
using Arithmetic = std::conditional_t<__is_same(S, double), double, float>;

/// log(1 + e^-z), which does not overflow.
template <class T>
Vec<T> soft_loss(Vec<T> z) {
  const Vec<T> zero{};
  return (z < zero ? -z : zero) + log1p_unit<T>(exp_of<T>(-absolute<T>(z)));
}

template <class T>
struct SoftMargin {
  Vec<T> operator()(Vec<T> x, Vec<T> target) const { return soft_loss<T>(x * target); }
};

template <class T>
struct SoftMarginBackward {
  Vec<T> operator()(Vec<T> x, Vec<T> target, Vec<T> dy) const {
    const Vec<T> z = x * target, one = broadcast<T>(1), u = exp_of<T>(-absolute<T>(z));
    return -target * ((z < Vec<T>{} ? one : u) / (one + u)) * (dy * scale);
  }
  T scale;
};

template <class T>
struct SoftMarginSum {
  using Job = void;
  static constexpr int kReads = 2, kAccumulators = 1, kIndex = -1;
  void start(Vec<T> (&acc)[1]) const { acc[0] = Vec<T>{}; }
  void add(Vec<T> (&acc)[1], Vec<T>, Vec<T> x, Vec<T> target) const { acc[0] = acc[0] + soft_loss<T>(x * target); }
  void merge(Vec<T> (&acc)[1], const Vec<T> (&later)[1]) const { acc[0] = acc[0] + later[0]; }
};

template <class T>
struct HingeSum {
  using Job = Hinge;
  static constexpr int kReads = 1, kAccumulators = 1, kIndex = -1;
  explicit HingeSum(const Job& job) : shift(static_cast<T>(job.shift)), squared(job.power == 2) {}
  void start(Vec<T> (&acc)[1]) const { acc[0] = Vec<T>{}; }
  void add(Vec<T> (&acc)[1], Vec<T>, Vec<T> x) const {
    const Vec<T> z = x + shift, hinge = z < Vec<T>{} ? Vec<T>{} : z;  // NaN stays
    acc[0] = acc[0] + (squared ? hinge * hinge : hinge);
  }
  void merge(Vec<T> (&acc)[1], const Vec<T> (&later)[1]) const { acc[0] = acc[0] + later[0]; }
  T shift;
  bool squared;
};

template <class S>
void soft_margin_of(const Run& run) {
  map<Arithmetic<S>, Types<S, S>, Types<S>>(SoftMargin<Arithmetic<S>>{}, run);
}
template <class S>
void soft_margin_backward_of(double scale, const Run& run) {
  using T = Arithmetic<S>;
  map<T, Types<S, S, S>, Types<S>>(SoftMarginBackward<T>{static_cast<T>(scale)}, run);
}

void soft_margin(DataType type, const Run& run) {
  switch (type) {
    case DataType::kHalf: return soft_margin_of<Half>(run);
    case DataType::kBFloat16: return soft_margin_of<Bfloat16>(run);
    case DataType::kDouble: return soft_margin_of<double>(run);
    default: return soft_margin_of<float>(run);
  }
}

void soft_margin_backward(DataType type, double scale, const Run& run) {
  switch (type) {
    case DataType::kHalf: return soft_margin_backward_of<Half>(scale, run);
    case DataType::kBFloat16: return soft_margin_backward_of<Bfloat16>(scale, run);
    case DataType::kDouble: return soft_margin_backward_of<double>(scale, run);
    default: return soft_margin_backward_of<float>(scale, run);
  }
}

template <class S>
constexpr Reduction<> kSoftMarginSum = reduction<SoftMarginSum, Arithmetic<S>, Types<S, S>>();
template <class S>
constexpr Reduction<> kHingeSum = reduction<HingeSum, Arithmetic<S>, Types<S>>();

const Reduction<>& soft_margin_sum(DataType type) {
  switch (type) {
    case DataType::kHalf: return kSoftMarginSum<Half>;
    case DataType::kBFloat16: return kSoftMarginSum<Bfloat16>;
    case DataType::kDouble: return kSoftMarginSum<double>;
    default: return kSoftMarginSum<float>;
  }
}

const Reduction<>& hinge_sum(DataType type) {
  switch (type) {
    case DataType::kHalf: return kHingeSum<Half>;
    case DataType::kBFloat16: return kHingeSum<Bfloat16>;
    case DataType::kDouble: return kHingeSum<double>;
    default: return kHingeSum<float>;
  }
}

}  // namespace

template <>
const LossKernels& entry_points<LossKernels>() {
  static constexpr LossKernels kKernels{.soft_margin = soft_margin,
                                        .soft_margin_backward = soft_margin_backward,
                                        .soft_margin_sum = soft_margin_sum,
                                        .hinge_sum = hinge_sum};
  return kKernels;
}

}  // namespace polymio::kernels::POLYMIO_ISA_NAMESPACE
