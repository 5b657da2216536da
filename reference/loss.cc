// SPDX-License-Identifier: MIT
#include "reference/loss.h"

#include <cmath>

namespace polymio::reference {
namespace {

Result reduced(const Result& all, LossReduction reduction) {
  if (reduction == LossReduction::kNone) return all;
  Result one{{0}, {0}};
  for (std::size_t i = 0; i < all.value.size(); ++i) {
    one.value[0] += all.value[i];
    one.magnitude[0] += all.magnitude[i];
  }
  if (reduction == LossReduction::kMean) {
    one.value[0] /= static_cast<double>(all.value.size());
    one.magnitude[0] /= static_cast<double>(all.value.size());
  }
  return one;
}

Arithmetic arithmetic_of(Type type, std::int64_t length) {
  Arithmetic how;
  how.output = type;
  how.accumulate = type == Type::kDouble ? Type::kDouble : Type::kFloat;
  how.reduction_length = length;
  return how;
}

constexpr std::int64_t kRoundings = 8;  // of a loss or its derivative

}  // namespace

Result evaluate(const SoftMargin& p, const void* x, const void* target) {
  Result all;
  for (std::int64_t i = 0; i < p.x.count(); ++i) {
    const double z = load(p.x.type, x, p.x.offset(i)) * load(p.target.type, target, p.target.offset(i));
    const double loss = z < 0 ? -z + std::log1p(std::exp(z)) : std::log1p(std::exp(-z));
    all.value.push_back(loss);
    all.magnitude.push_back(loss * (1 + (z > 0 ? z : 0)));  // a rounded z changes small losses by so much
  }
  return reduced(all, p.reduction);
}

Result gradient(const SoftMargin& p, const void* x, const void* target, const Tensor& dy, const void* grad) {
  Result all;
  const double scale = p.reduction == LossReduction::kMean ? 1 / static_cast<double>(p.x.count()) : 1;
  for (std::int64_t i = 0; i < p.x.count(); ++i) {
    const double t = load(p.target.type, target, p.target.offset(i)), z = load(p.x.type, x, p.x.offset(i)) * t;
    const double outer = load(dy.type, grad, dy.offset(dy.count() == 1 ? 0 : i));
    all.value.push_back(-t / (std::exp(z) + 1) * outer * scale);
    all.magnitude.push_back(std::fabs(all.value.back()) * (1 + std::fabs(z)));
  }
  return all;
}

Result evaluate(const MultiMargin& p, const void* x, const void* target, const void* weight) {
  const std::int64_t classes = p.x.lens[1];
  Result all;
  for (std::int64_t n = 0; n < p.x.lens[0]; ++n) {
    const auto t = static_cast<std::int64_t>(load(p.target.type, target, p.target.offset(n)));
    double sum = 0, magnitude = 0;
    if (t >= 0 && t < classes) {
      const double own = load(p.x.type, x, p.x.offset(n * classes + t));
      const double factor = load(p.weight.type, weight, p.weight.offset(t)) / static_cast<double>(classes);
      for (std::int64_t c = 0; c < classes; ++c) {
        if (c == t) continue;
        const double other = load(p.x.type, x, p.x.offset(n * classes + c));
        const double z = p.margin - own + other, size = std::fabs(p.margin) + std::fabs(own) + std::fabs(other);
        sum += factor * (z > 0 ? p.power == 2 ? z * z : z : 0);
        magnitude += std::fabs(factor) * (p.power == 2 ? (z > 0 ? z : 0) * 2 * size + size * 1e-7 * size : size);
      }
    }
    all.value.push_back(sum);
    all.magnitude.push_back(magnitude);
  }
  return reduced(all, p.reduction);
}

Arithmetic arithmetic(const SoftMargin& p, bool of_gradient) {
  return arithmetic_of(p.x.type, kRoundings + (of_gradient || p.reduction == LossReduction::kNone ? 0 : p.x.count()));
}

Arithmetic arithmetic(const MultiMargin& p) {
  return arithmetic_of(p.x.type, kRoundings + p.x.lens[1] + (p.reduction == LossReduction::kNone ? 0 : p.x.lens[0]));
}

}  // namespace polymio::reference
