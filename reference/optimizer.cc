// SPDX-License-Identifier: MIT
#include "reference/optimizer.h"

#include <cmath>

#include "reference/types.h"

namespace polymio::reference {
namespace {

struct Element {
  double value[4], magnitude[4];  // parameter, mean, mean square, maximum
};

Element step_of(const Adam& a, const Element& old, double given, bool amsgrad) {
  Element e = old;
  const double scaled = given / a.scale, sign = a.maximize ? -1 : 1;
  const double l2 = a.kind == Optimizer::kAdam ? a.weight_decay : 0;
  const double g = sign * scaled + (l2 != 0 ? l2 * old.value[0] : 0);
  const double g_magnitude = std::fabs(scaled) + std::fabs(l2 * old.value[0]);
  e.value[1] = a.beta1 * old.value[1] + (1 - a.beta1) * g;
  e.magnitude[1] = std::fabs(a.beta1 * old.value[1]) + (1 - a.beta1) * g_magnitude;
  e.value[2] = a.beta2 * old.value[2] + (1 - a.beta2) * g * g;
  e.magnitude[2] = std::fabs(a.beta2 * old.value[2]) + (1 - a.beta2) * g_magnitude * g_magnitude;
  if (!amsgrad || e.value[2] > old.value[3] || std::isnan(e.value[2])) {
    e.value[3] = e.value[2];
    e.magnitude[3] = e.magnitude[2];
  }
  const bool transformers = a.kind == Optimizer::kTransformersAdamW;
  const double of_mean = 1 - std::pow(a.beta1, a.step), of_square = std::sqrt(1 - std::pow(a.beta2, a.step));
  double size = a.rate / of_mean, root = std::sqrt(e.value[3]);
  if (!transformers)
    root /= of_square;
  else if (a.step_size >= 0)
    size = a.step_size;
  else
    size = a.correct_bias ? a.rate * of_square / of_mean : a.rate;
  const double decay = a.rate * a.weight_decay, denominator = root + a.eps;
  const double before = a.kind == Optimizer::kAdamW ? 1 - decay : 1;
  const double after = transformers && a.weight_decay > 0 ? 1 - decay : 1;
  e.value[0] = (before * old.value[0] - size * e.value[1] / denominator) * after;
  // An error of the mean square changes its root by half of the relative error.
  const double relative = e.value[3] > 0 ? e.magnitude[3] / e.value[3] : 0;
  const double moved = size / denominator * (e.magnitude[1] + std::fabs(e.value[1]) * relative);
  e.magnitude[0] = (std::fabs(before * old.value[0]) + moved) * std::fabs(after);
  return e;
}

}  // namespace

Result evaluate(const Adam& a, const void* state, const void* gradient) {
  const std::int64_t count = a.gradient.count(), parts = a.state.lens[0];
  Result result;
  result.value.resize(static_cast<std::size_t>(parts * count));
  result.magnitude.resize(result.value.size());
  for (std::int64_t i = 0; i < count; ++i) {
    Element e{};
    for (std::int64_t k = 0; k < parts; ++k) {
      e.value[k] = load(a.state.type, state, a.state.offset(k * count + i));
      e.magnitude[k] = std::fabs(e.value[k]);
    }
    if (!a.skip) e = step_of(a, e, load(a.gradient.type, gradient, a.gradient.offset(i)), parts == 4);
    for (std::int64_t k = 0; k < parts; ++k) {
      result.value[static_cast<std::size_t>(k * count + i)] = e.value[k];
      result.magnitude[static_cast<std::size_t>(k * count + i)] = e.magnitude[k];
    }
  }
  return result;
}

Arithmetic arithmetic(const Adam& a) {
  Arithmetic how;
  how.output = a.state.type;
  how.accumulate = a.state.type == Type::kDouble ? Type::kDouble : Type::kFloat;
  how.growth = 4;  // coefficients, a square root and divisions, each within a few roundings
  return how;
}

Tensor adam_state(const Tensor& part, std::int64_t parts) {
  std::vector<std::int64_t> lens{parts}, strides{part.space()};
  lens.insert(lens.end(), part.lens.begin(), part.lens.end());
  strides.insert(strides.end(), part.strides.begin(), part.strides.end());
  return {part.type, lens, strides};
}

}  // namespace polymio::reference
