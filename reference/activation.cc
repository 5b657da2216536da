// Activations, one element at a time.
// SPDX-License-Identifier: MIT
#include "reference/activation.h"

#include <cmath>
#include <limits>

namespace polymio::reference {
namespace {

// Amplification of the argument's relative error in the result, in addition to a factor of 1.
double condition(const Activation& p, double x) {
  if (p.mode == ActivationMode::kTanh) return std::fabs(p.alpha * x);
  const bool wide = p.x.type == Type::kDouble;  // for narrower types double is sufficiently exact
  if (p.mode != ActivationMode::kPower || !wide) return 0;
  const double base = p.alpha + p.beta * x;
  if (!(base > 0)) return 0;
  return (std::fabs(p.gamma) + 1) * (std::fabs(p.alpha) + std::fabs(p.beta * x)) / base;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

std::int64_t half_offset(const Tensor& t, std::size_t dim) { return t.lens[dim] / 2 * t.strides[dim]; }

// The first half of `t` along `dim`.
Tensor first_half(const Tensor& t, std::size_t dim) {
  auto lens = t.lens;
  lens[dim] /= 2;
  return {t.type, lens, t.strides};
}

}  // namespace

double activate(const Activation& p, double x) {
  if (std::isnan(x)) return x;
  const double infinity = std::numeric_limits<double>::infinity();
  switch (p.mode) {
    case ActivationMode::kLogistic: return sigmoid(x);
    case ActivationMode::kTanh: return p.beta * std::tanh(p.alpha * x);
    case ActivationMode::kRelu: return std::fmax(0, x);
    case ActivationMode::kSoftrelu: return x == infinity ? x : x > 30 ? x + std::exp(-x) : std::log1p(std::exp(x));
    case ActivationMode::kAbs: return std::fabs(x);
    case ActivationMode::kPower: return p.alpha + p.beta * x > 0 ? std::pow(p.alpha + p.beta * x, p.gamma) : 0;
    case ActivationMode::kClippedRelu: return std::fmin(p.alpha, std::fmax(0, x));
    case ActivationMode::kLeakyRelu: return x > 0 ? x : p.alpha * x;
    case ActivationMode::kElu: return x > 0 ? x : p.alpha * std::expm1(x);
    case ActivationMode::kClamp: return std::fmax(p.alpha, std::fmin(p.beta, x));
    case ActivationMode::kSwish: return x * sigmoid(p.alpha * x);
    case ActivationMode::kPassthru: break;
  }
  return x;
}

double activate_backward(const Activation& p, double x, double dy) {
  switch (p.mode) {
    case ActivationMode::kLogistic: return dy * sigmoid(x) * sigmoid(-x);
    case ActivationMode::kTanh: {
      const double c = std::cosh(p.alpha * x);
      return dy * p.alpha * p.beta / c / c;
    }
    case ActivationMode::kRelu: return x > 0 ? dy : 0;
    case ActivationMode::kSoftrelu: return dy * sigmoid(x);
    case ActivationMode::kAbs: return x == 0 ? 0 : std::copysign(1, x) * dy;
    case ActivationMode::kPower:
      if (!(p.alpha + p.beta * x > 0)) return 0;
      return dy * p.gamma * p.beta * std::pow(p.alpha + p.beta * x, p.gamma - 1);
    case ActivationMode::kClippedRelu: return x > 0 && x <= p.alpha ? dy : 0;
    case ActivationMode::kLeakyRelu: return x > 0 ? dy : p.alpha * dy;
    case ActivationMode::kElu: return x > 0 ? dy : dy * p.alpha * std::exp(x);
    case ActivationMode::kClamp: return p.alpha < x && x <= p.beta ? dy : 0;
    case ActivationMode::kSwish:  // no API has its gradient
    case ActivationMode::kPassthru: break;
  }
  return dy;
}

Result evaluate(const Activation& p, const void* x, const void* dy, const void* old,
                std::span<const std::int64_t> sample) {
  Result result;
  const std::int64_t count = sample.empty() ? p.out.count() : static_cast<std::int64_t>(sample.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = sample.empty() ? i : sample[static_cast<std::size_t>(i)];
    const double in = load(p.x.type, x, p.x.offset(at));
    const double value =
        p.scale * (p.backward ? activate_backward(p, in, load(p.dy.type, dy, p.dy.offset(at))) : activate(p, in));
    const double kept = p.keep == 0 ? 0 : p.keep * load(p.out.type, old, p.out.offset(at));
    result.value.push_back(value + kept);
    result.magnitude.push_back(std::fabs(value) * (1 + condition(p, in)) + std::fabs(kept));
  }
  return result;
}

Arithmetic arithmetic(const Activation& p) {
  Arithmetic how;
  how.output = p.out.type;
  how.accumulate = p.out.type == Type::kDouble ? Type::kDouble : Type::kFloat;
  how.reduction_length = 5;  // the operation has about eight roundings, like a sum of five terms
  return how;
}

Result glu(const Tensor& in, const void* x, std::size_t dim) {
  Result result;
  const Tensor half = first_half(in, dim);
  for (std::int64_t i = 0; i < half.count(); ++i) {
    const std::int64_t at = half.offset(i);
    const double value = load(in.type, x, at) * sigmoid(load(in.type, x, at + half_offset(in, dim)));
    result.value.push_back(value);
    result.magnitude.push_back(std::fabs(value));
  }
  return result;
}

Result glu_backward(const Tensor& in, const void* x, const Tensor& out, const void* dy, std::size_t dim) {
  Result result{std::vector<double>(static_cast<std::size_t>(in.count())),
                std::vector<double>(static_cast<std::size_t>(in.count()))};
  const Tensor half = first_half(in, dim);
  std::int64_t inner = 1;
  for (std::size_t d = dim + 1; d < in.lens.size(); ++d) inner *= in.lens[d];
  const std::int64_t block = inner * half.lens[dim];
  for (std::int64_t i = 0; i < half.count(); ++i) {
    const std::int64_t at = half.offset(i);
    const double a = load(in.type, x, at), s = sigmoid(load(in.type, x, at + half_offset(in, dim)));
    const double grad = load(out.type, dy, out.offset(i));
    const auto first = static_cast<std::size_t>(i / block * 2 * block + i % block);
    const auto second = first + static_cast<std::size_t>(block);
    result.value[first] = grad * s;
    result.value[second] = grad * a * s * (1 - s);
    result.magnitude[first] = std::fabs(result.value[first]);
    result.magnitude[second] = std::fabs(result.value[second]) + std::fabs(grad * a * s * s);
  }
  return result;
}

}  // namespace polymio::reference
