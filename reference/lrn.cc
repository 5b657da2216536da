// SPDX-License-Identifier: MIT
#include "reference/lrn.h"

#include <algorithm>
#include <cmath>

namespace polymio::reference {
namespace {

bool in_window(const Lrn& p, std::size_t dim) { return p.cross ? dim == 1 : dim >= 2; }

double window_size(const Lrn& p) {
  double size = 1;
  for (std::size_t d = 0; d < p.x.lens.size(); ++d) size *= in_window(p, d) ? static_cast<double>(p.n) : 1;
  return size;
}

struct Reach {
  std::int64_t before, after;
};

// Calls use(j) for the dense indices of the elements within reach of element i along each window dimension among the
// first `dims` ones, whose last has the stride `step`.
template <class Use>
void each_neighbour(const Lrn& p, Reach reach, std::int64_t i, const Use& use, std::size_t dims,
                    std::int64_t step = 1) {
  if (dims-- == 0) return use(i);
  const std::int64_t len = p.x.lens[dims], at = i / step % len;
  const bool inside = in_window(p, dims);
  const std::int64_t first = inside ? std::max(-reach.before, -at) : 0;
  const std::int64_t last = inside ? std::min(reach.after, len - 1 - at) : 0;
  for (std::int64_t t = first; t <= last; ++t) each_neighbour(p, reach, i + t * step, use, dims, step * len);
}

struct Sum {
  double value = 0, magnitude = 0;
  double amplification() const { return magnitude / std::fabs(value); }
};

Sum scale_of(const Lrn& p, const void* x, std::int64_t i) {
  // A window of one element within a channel has the factor 1: so does MIOpen.
  const double factor = !p.cross && p.n == 1 ? 1 : p.alpha / window_size(p);
  Sum sum{p.k, std::fabs(p.k)};
  const auto add = [&](std::int64_t j) {
    const double v = load(p.x.type, x, p.x.offset(j));
    sum.value += factor * v * v;
    sum.magnitude += std::fabs(factor) * v * v;
  };
  each_neighbour(p, {(p.n - 1) / 2, p.n / 2}, i, add, p.x.lens.size());
  return sum;
}

template <class Element>
Result each(const Lrn& p, std::span<const std::int64_t> sample, const Element& element) {
  Result result;
  const std::int64_t count = sample.empty() ? p.x.count() : static_cast<std::int64_t>(sample.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const Sum sum = element(sample.empty() ? i : sample[static_cast<std::size_t>(i)]);
    result.value.push_back(sum.value);
    result.magnitude.push_back(sum.magnitude);
  }
  return result;
}

}  // namespace

Result evaluate(const Lrn& p, const void* x, const void* y, const void* dy, const void* scale,
                std::span<const std::int64_t> sample) {
  const auto scale_at = [&](std::int64_t i) {
    if (!scale) return scale_of(p, x, i);
    const double v = load(p.y.type, scale, p.y.offset(i));
    return Sum{v, std::fabs(v)};
  };
  return each(p, sample, [&](std::int64_t i) {
    const Sum s = scale_at(i);
    const double amplified = 1 + std::fabs(p.beta) * s.amplification(), power = std::pow(s.value, -p.beta);
    const double at_x = load(p.x.type, x, p.x.offset(i));
    if (!p.backward) return Sum{at_x * power, std::fabs(at_x * power) * amplified};
    Sum products;
    const auto add = [&](std::int64_t j) {
      const Sum other = scale_at(j);
      const double term = load(p.y.type, y, p.y.offset(j)) * load(p.dy.type, dy, p.dy.offset(j)) / other.value;
      products.value += term;
      products.magnitude += std::fabs(term) * other.amplification();
    };
    each_neighbour(p, {p.n / 2, (p.n - 1) / 2}, i, add, p.x.lens.size());
    const double direct = load(p.dy.type, dy, p.dy.offset(i)) * power;
    const double factor = 2 * p.alpha * p.beta / window_size(p) * at_x;
    return Sum{direct - factor * products.value,
               std::fabs(direct) * amplified + std::fabs(factor) * products.magnitude};
  });
}

Result lrn_scale(const Lrn& p, const void* x, std::span<const std::int64_t> sample) {
  return each(p, sample, [&](std::int64_t i) { return scale_of(p, x, i); });
}

Arithmetic arithmetic(const Lrn& p) {
  Arithmetic how;
  how.output = p.out.type;
  how.accumulate = p.out.type == Type::kDouble ? Type::kDouble : Type::kFloat;
  // Beside the sums, which only the elements that exist lengthen, there are about a dozen roundings.
  double terms = 1;
  for (std::size_t d = 0; d < p.x.lens.size(); ++d)
    terms *= in_window(p, d) ? static_cast<double>(std::min(p.n, p.x.lens[d])) : 1;
  how.reduction_length = 12 + static_cast<std::int64_t>(terms) * (p.backward ? 2 : 1);
  return how;
}

}  // namespace polymio::reference
