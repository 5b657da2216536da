// Pooling, one window at a time; the gradient by scattering.
// SPDX-License-Identifier: MIT
#include "reference/pooling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace polymio::reference {
namespace {

using Index = std::vector<std::int64_t>;

Index coordinates(const Tensor& t, std::int64_t dense) {
  Index at(t.lens.size());
  for (std::size_t d = at.size(); d-- > 0; dense /= t.lens[d]) at[d] = dense % t.lens[d];
  return at;
}

std::int64_t dense_index(const Tensor& t, const Index& at) {
  std::int64_t dense = 0;
  for (std::size_t d = 0; d < at.size(); ++d) dense = dense * t.lens[d] + at[d];
  return dense;
}

// Calls body(dense index in x, position in the window) for each element of the window of an output.
void each_element(const Pooling& p, std::int64_t output, const std::function<void(std::int64_t, std::int64_t)>& body) {
  const Index out = coordinates(p.y, output);
  std::int64_t volume = 1;
  for (const std::int64_t length : p.window) volume *= length;
  for (std::int64_t position = 0; position < volume; ++position) {
    Index at = out;
    bool inside = true;
    std::int64_t rest = position;
    for (std::size_t d = p.window.size(); d-- > 0; rest /= p.window[d]) {
      at[d + 2] = out[d + 2] * p.stride[d] - p.pad[d] + rest % p.window[d];
      inside = inside && at[d + 2] >= 0 && at[d + 2] < p.x.lens[d + 2];
    }
    if (inside) body(dense_index(p.x, at), position);
  }
}

double lowest(Type type) {
  switch (type) {
    case Type::kHalf: return -65504;
    case Type::kBFloat16: return -0x1.fep127;
    case Type::kInt8: return -128;
    case Type::kDouble: return -std::numeric_limits<double>::max();
    default: return -std::numeric_limits<float>::max();
  }
}

struct Maximum {
  double value = 0;
  std::int64_t element = -1, position = 0;  // element -1: the window has none
};

Maximum maximum(const Pooling& p, const void* x, std::int64_t output) {
  Maximum found{lowest(p.x.type)};
  each_element(p, output, [&](std::int64_t element, std::int64_t position) {
    const double stored = load(p.x.type, x, p.x.offset(element));
    const double value = std::isnan(stored) ? -std::numeric_limits<double>::infinity() : stored;
    if (found.element < 0 || value > found.value) found = {value, element, position};
  });
  return found;
}

// What the sum of a window is divided by; 1 for a window in the padding.
double divisor(const Pooling& p, std::int64_t output) {
  std::int64_t count = 0;
  each_element(p, output, [&](std::int64_t, std::int64_t) { ++count; });
  if (p.mode == PoolingMode::kAverageInclusive) {
    count = 1;
    for (const std::int64_t length : p.window) count *= length;
  }
  return static_cast<double>(std::max<std::int64_t>(count, 1));
}

void add_old(Result& result, const Pooling& p, const Tensor& t, std::int64_t dense, const void* old) {
  const double kept = p.keep == 0 ? 0 : p.keep * load(t.type, old, t.offset(dense));
  result.value.back() += kept;
  result.magnitude.back() += std::fabs(kept);
}

}  // namespace

std::int64_t Pooling::outputs(std::size_t dim, std::int64_t size) const {
  const std::int64_t room = size + 2 * pad[dim] - window[dim];
  return room < 0 ? 1 : room / stride[dim] + 1;
}

std::vector<std::int64_t> maxima(const Pooling& p, const void* x, bool in_image) {
  std::int64_t image = 1;
  for (std::size_t d = 2; d < p.x.lens.size(); ++d) image *= p.x.lens[d];
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < p.y.count(); ++i) {
    const Maximum found = maximum(p, x, i);
    all.push_back(!in_image ? found.position : found.element < 0 ? 0 : found.element % image);
  }
  return all;
}

Result pool(const Pooling& p, const void* x, const void* old, std::span<const std::int64_t> sample) {
  Result result;
  const std::int64_t count = sample.empty() ? p.y.count() : static_cast<std::int64_t>(sample.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t output = sample.empty() ? i : sample[static_cast<std::size_t>(i)];
    double value = 0, magnitude = 0;
    if (p.mode == PoolingMode::kMax) {
      value = maximum(p, x, output).value;
      magnitude = std::fabs(value);
    } else {
      each_element(p, output, [&](std::int64_t element, std::int64_t) {
        const double v = load(p.x.type, x, p.x.offset(element));
        value += v;
        magnitude += std::fabs(v);
      });
      const double by = divisor(p, output);
      value /= by;
      magnitude /= by;
    }
    result.value.push_back(p.scale * value);
    result.magnitude.push_back(std::fabs(p.scale) * magnitude);
    add_old(result, p, p.y, output, old);
  }
  return result;
}

Result pool_backward(const Pooling& p, const void* x, const void* dy, const void* old) {
  std::vector<double> sums(static_cast<std::size_t>(p.dx.count())), magnitudes(sums);
  const auto add = [&](std::int64_t element, double gradient) {
    sums[static_cast<std::size_t>(element)] += gradient;
    magnitudes[static_cast<std::size_t>(element)] += std::fabs(gradient);
  };
  for (std::int64_t output = 0; output < p.y.count(); ++output) {
    const double gradient = load(p.dy.type, dy, p.dy.offset(output));
    if (p.mode == PoolingMode::kMax) {
      const Maximum found = maximum(p, x, output);
      if (found.element >= 0) add(found.element, gradient);
    } else {
      const double by = divisor(p, output);
      each_element(p, output, [&](std::int64_t element, std::int64_t) { add(element, gradient / by); });
    }
  }
  Result result;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    result.value.push_back(p.scale * sums[i]);
    result.magnitude.push_back(std::fabs(p.scale) * magnitudes[i]);
    add_old(result, p, p.dx, static_cast<std::int64_t>(i), old);
  }
  return result;
}

Arithmetic pool_arithmetic(const Pooling& p, bool backward) {
  Arithmetic how;
  how.output = p.x.type;
  how.accumulate = p.x.type == Type::kDouble ? Type::kDouble : Type::kFloat;
  std::int64_t terms = 1;
  for (std::size_t d = 0; d < p.window.size(); ++d)
    terms *= backward ? (p.window[d] - 1) / p.stride[d] + 1 : p.window[d];
  // A weight is a product of one reciprocal per dimension: up to 5 roundings.
  if (p.mode != PoolingMode::kMax || backward) how.reduction_length = terms + 5;
  return how;
}

}  // namespace polymio::reference
