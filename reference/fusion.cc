// SPDX-License-Identifier: MIT
#include "reference/fusion.h"

#include <algorithm>
#include <cmath>

namespace polymio::reference {
namespace {

// Of a dense index of y: its channel, and its place in an image.
struct Place {
  std::int64_t channel, in_image;
};
Place place_of(const Tensor& y, std::int64_t index) {
  const std::int64_t image = y.count() / y.lens[0], plane = image / y.lens[1];
  return {index / plane % y.lens[1], index % image};
}

// The largest change of the activation within `bound` of v, per unit.
double slope(const Activation& f, double v, double bound) {
  if (bound <= 0) return 1;
  const double change =
      std::max(std::fabs(activate(f, v + bound) - activate(f, v)), std::fabs(activate(f, v - bound) - activate(f, v)));
  return std::max(1.0, change / bound);
}

}  // namespace

Result evaluate(const Fusion& p, const FusionInputs& in, std::span<const std::int64_t> sample) {
  const Tensor& y = p.convolution.y;
  Result all;
  if (p.has_convolution) {
    const Operands data{in.x, in.w, nullptr};
    all = sample.empty() ? evaluate(p.convolution, data) : evaluate(p.convolution, data, sample);
  }
  const Arithmetic rounding = arithmetic(p);
  const std::int64_t count = sample.empty() ? y.count() : static_cast<std::int64_t>(sample.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = sample.empty() ? i : sample[static_cast<std::size_t>(i)];
    const Place place = place_of(y, index);
    if (!p.has_convolution) {
      const double v = load(p.convolution.x.type, in.x, p.convolution.x.offset(index));
      all.value.push_back(v);
      all.magnitude.push_back(std::fabs(v));
    }
    double& v = all.value[static_cast<std::size_t>(i)];
    double& magnitude = all.magnitude[static_cast<std::size_t>(i)];
    if (p.has_bias) {
      const double bias = load(p.bias.type, in.bias, p.bias.offset(place.channel));
      v += bias;
      magnitude += std::fabs(bias);
    }
    if (p.has_norm) {
      const std::int64_t at = p.norm.spatial ? place.channel : place.in_image;
      const auto parameter = [&](const Tensor& t, const void* data) { return load(t.type, data, t.offset(at)); };
      const double mean = parameter(p.norm.moments, in.mean), shift = parameter(p.norm.biases, in.shift);
      const double factor =
          parameter(p.norm.scales, in.scale) / std::sqrt(parameter(p.norm.moments, in.variance) + p.norm.epsilon);
      v = (v - mean) * factor + shift;
      magnitude = (magnitude + std::fabs(mean)) * std::fabs(factor) + std::fabs(shift);
    }
    if (!p.has_activation) continue;
    magnitude *= slope(p.activation, v, error_bound(rounding, magnitude));
    v = activate(p.activation, v);
    magnitude += std::fabs(v);
  }
  return all;
}

Arithmetic arithmetic(const Fusion& p) {
  Arithmetic a;
  a.output = p.convolution.y.type;
  if (p.has_convolution) a = arithmetic(p.convolution);
  if (a.output == Type::kHalf) a.input_rounding = 0x1p-11;
  if (a.output == Type::kBFloat16) a.input_rounding = 0x1p-8;
  a.reduction_length += 8;
  a.accumulate = a.output == Type::kDouble ? Type::kDouble : Type::kFloat;
  return a;
}

}  // namespace polymio::reference
