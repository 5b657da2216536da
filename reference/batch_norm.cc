// Batch normalisation, one parameter at a time. Magnitudes follow the formulas: a deviation that an implementation sums
// may be from any element, so from the mean's value up to the largest deviation.
// SPDX-License-Identifier: MIT
#include "reference/batch_norm.h"

#include <algorithm>
#include <cmath>

namespace polymio::reference {
namespace {

struct Value {
  double value = 0, magnitude = 0;
};

void push(Result& result, double value, double magnitude) {
  result.value.push_back(value);
  result.magnitude.push_back(magnitude);
}

// The dense indices of x that have the parameter of each dense index.
std::vector<std::vector<std::int64_t>> elements_of(const BatchNorm& p) {
  const std::vector<std::int64_t> lens = parameter_lens(p);
  const Tensor parameters(Type::kDouble, lens);
  std::vector<std::vector<std::int64_t>> all(static_cast<std::size_t>(parameters.count()));
  for (std::int64_t i = 0; i < p.x.count(); ++i) {
    std::int64_t rest = i, at = 0, stride = 1;
    for (std::size_t d = lens.size(); d-- > 0; rest /= p.x.lens[d]) {
      if (lens[d] == 1) continue;
      at += rest % p.x.lens[d] * stride;
      stride *= lens[d];
    }
    all[static_cast<std::size_t>(at)].push_back(i);
  }
  return all;
}

class Row {
 public:
  Row(const BatchNorm& p, const BatchNormInputs& in, std::int64_t parameter, const std::vector<std::int64_t>& elements)
      : p_(p), in_(in), parameter_(parameter), elements_(elements), n_(static_cast<double>(elements.size())) {
    const bool given = p.direction == BatchNorm::Direction::kInference ||
                       (p.direction == BatchNorm::Direction::kBackward && in.mean != nullptr);
    given ? take() : measure();
    scale_ = at(p.scales, in.scale);
    bias_ = in.bias == nullptr ? 0 : at(p.biases, in.bias);
  }

  void moments(BatchNormResults& results) const {
    push(results.mean, mean_.value, mean_.magnitude);
    push(results.inverse, inverse_.value, inverse_.magnitude);
    if (in_.mean == nullptr) return;
    const auto running = [&](Result& result, const void* before, Value batch) {
      const double kept = p_.factor == 1 ? 0 : (1 - p_.factor) * at(p_.moments, before);
      push(result, kept + p_.factor * batch.value, std::fabs(kept) + p_.factor * batch.magnitude);
    };
    const double unbiased = n_ > 1 ? n_ / (n_ - 1) : 1;
    running(results.next_mean, in_.mean, mean_);
    running(results.next_variance, in_.variance, {variance_.value * unbiased, variance_.magnitude * unbiased});
  }

  Value forward(std::int64_t i) const {
    const double difference = x(i) - mean_.value, argument = difference * inverse_.value * scale_ + bias_;
    const double magnitude = std::fabs(scale_) * (inverse_.value * (mean_.magnitude + std::fabs(difference)) +
                                                  std::fabs(difference) * inverse_.magnitude) +
                             std::fabs(bias_);
    return {activate(p_.activation, argument), magnitude};
  }

  void reduce() {
    for (const std::int64_t i : elements_) {
      const double g = gradient(i), normal = (x(i) - mean_.value) * inverse_.value;
      dbias_.value += g;
      dbias_.magnitude += std::fabs(g);
      dscale_.value += g * normal;
      dscale_.magnitude += std::fabs(g) * (std::fabs(normal) * (1 + relative()) + inverse_.value * mean_.magnitude);
    }
  }
  void gradients(BatchNormResults& results) const {
    const auto blended = [&](Result& result, const void* old, Value v) {
      const double kept = p_.parameter_keep == 0 ? 0 : p_.parameter_keep * at(p_.biases, old);
      push(result, p_.parameter_scale * v.value + kept, std::fabs(p_.parameter_scale) * v.magnitude + std::fabs(kept));
    };
    blended(results.dscale, in_.old_dscale, dscale_);
    blended(results.dbias, in_.old_dbias, dbias_);
  }
  Value backward(std::int64_t i) const {
    const double g = gradient(i), normal = (x(i) - mean_.value) * inverse_.value, factor = scale_ * inverse_.value;
    const double size = std::fabs(g) + dbias_.magnitude / n_ +
                        (std::fabs(normal) + inverse_.value * mean_.magnitude) * dscale_.magnitude / n_;
    return {factor * (g - dbias_.value / n_ - normal * dscale_.value / n_),
            std::fabs(factor) * size * (1 + relative())};
  }

 private:
  double at(const Tensor& t, const void* data) const { return load(t.type, data, t.offset(parameter_)); }
  double x(std::int64_t i) const { return load(p_.x.type, in_.x, p_.x.offset(i)); }
  double gradient(std::int64_t i) const {
    const double dy = load(p_.dy.type, in_.dy, p_.dy.offset(i));
    return activate_backward(p_.activation, (x(i) - mean_.value) * inverse_.value * scale_ + bias_, dy);
  }
  // Of the inverse deviation, relative to it.
  double relative() const { return inverse_.value == 0 ? 0 : inverse_.magnitude / inverse_.value; }

  void take() {
    mean_.value = at(p_.moments, in_.mean);
    mean_.magnitude = std::fabs(mean_.value);
    const double given = at(p_.moments, in_.variance);
    const bool inverse = p_.direction == BatchNorm::Direction::kBackward || p_.inverse;
    inverse_.value = inverse ? given : 1 / std::sqrt(given + p_.epsilon);
    inverse_.magnitude = inverse_.value;
  }
  void measure() {
    double most = 0;
    for (const std::int64_t i : elements_) {
      mean_.value += x(i) / n_;
      mean_.magnitude += std::fabs(x(i)) / n_;
    }
    mean_.magnitude += std::fabs(mean_.value);
    for (const std::int64_t i : elements_) {
      const double difference = x(i) - mean_.value;
      variance_.value += difference * difference / n_;
      most = std::fmax(most, std::fabs(difference));
    }
    variance_.magnitude = variance_.value + most * most;
    inverse_.value = 1 / std::sqrt(variance_.value + p_.epsilon);
    inverse_.magnitude = inverse_.value * (1 + variance_.magnitude / (variance_.value + p_.epsilon) / 2);
  }

  const BatchNorm& p_;
  const BatchNormInputs& in_;
  const std::int64_t parameter_;
  const std::vector<std::int64_t>& elements_;
  const double n_;
  double scale_ = 0, bias_ = 0;
  Value mean_, variance_, inverse_, dscale_, dbias_;
};

}  // namespace

std::vector<std::int64_t> parameter_lens(const BatchNorm& p) {
  std::vector<std::int64_t> lens = p.x.lens;
  for (std::size_t d = 0; d < lens.size(); ++d) {
    if (d == 0 || (d > 1 && p.spatial)) lens[d] = 1;
  }
  return lens;
}

BatchNormResults evaluate(const BatchNorm& p, const BatchNormInputs& in) {
  BatchNormResults results;
  const auto size = static_cast<std::size_t>(p.x.count());
  results.out = {std::vector<double>(size), std::vector<double>(size)};
  const auto elements = elements_of(p);
  const bool backward = p.direction == BatchNorm::Direction::kBackward;
  for (std::size_t r = 0; r < elements.size(); ++r) {
    Row row(p, in, static_cast<std::int64_t>(r), elements[r]);
    if (p.direction == BatchNorm::Direction::kTraining) row.moments(results);
    if (backward) {
      row.reduce();
      row.gradients(results);
    }
    for (const std::int64_t i : elements[r]) {
      const Value v = backward ? row.backward(i) : row.forward(i);
      const double kept = p.keep == 0 ? 0 : p.keep * load(p.out.type, in.old, p.out.offset(i));
      results.out.value[static_cast<std::size_t>(i)] = p.scale * v.value + kept;
      results.out.magnitude[static_cast<std::size_t>(i)] = std::fabs(p.scale) * v.magnitude + std::fabs(kept);
    }
  }
  return results;
}

Arithmetic arithmetic(const BatchNorm& p, Type type) {
  Arithmetic how;
  how.output = type;
  how.accumulate = p.x.type == Type::kDouble ? Type::kDouble : Type::kFloat;
  how.reduction_length = 5;  // of the elementwise formula
  using enum ActivationMode;
  const ActivationMode mode = p.activation.mode;
  const bool has_pass = mode != kPassthru && mode != kRelu && mode != kClippedRelu && mode != kClamp;
  if (has_pass && p.out.type == Type::kHalf) how.input_rounding = 0x1p-11;  // between the norm and the activation
  if (has_pass && p.out.type == Type::kBFloat16) how.input_rounding = 0x1p-8;
  if (p.direction != BatchNorm::Direction::kInference) {
    std::int64_t parameters = 1;
    for (const std::int64_t len : parameter_lens(p)) parameters *= len;
    how.reduction_length += p.x.count() / parameters;
  }
  return how;
}

}  // namespace polymio::reference
