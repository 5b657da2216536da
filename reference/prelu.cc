// SPDX-License-Identifier: MIT
#include "reference/prelu.h"

#include <cmath>

namespace polymio::reference {
namespace {

// The weight of a dense index of x.
std::int64_t weight_of(const Prelu& p, std::int64_t at) {
  if (p.weight.count() == 1) return 0;
  std::int64_t inner = 1;
  for (std::size_t d = 2; d < p.x.lens.size(); ++d) inner *= p.x.lens[d];
  return at / inner % p.x.lens[1];
}

}  // namespace

Result prelu_input(const Prelu& p, const void* x, const void* weight, const void* dy,
                   std::span<const std::int64_t> sample) {
  Result result;
  const std::int64_t count = sample.empty() ? p.x.count() : static_cast<std::int64_t>(sample.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = sample.empty() ? i : sample[static_cast<std::size_t>(i)];
    const double grad = load(p.dy.type, dy, p.dy.offset(at));
    const bool positive = load(p.x.type, x, p.x.offset(at)) > 0;
    const double factor = positive ? 1 : load(p.weight.type, weight, p.weight.offset(weight_of(p, at)));
    result.value.push_back(factor * grad);
    result.magnitude.push_back(positive ? 0 : std::fabs(factor * grad));
  }
  return result;
}

Result prelu_weight(const Prelu& p, const void* x, const void* dy) {
  const auto weights = static_cast<std::size_t>(p.weight.count());
  Result result{std::vector<double>(weights), std::vector<double>(weights)};
  for (std::int64_t i = 0; i < p.x.count(); ++i) {
    const double in = load(p.x.type, x, p.x.offset(i));
    if (in > 0) continue;
    const double term = in * load(p.dy.type, dy, p.dy.offset(i));
    const auto w = static_cast<std::size_t>(weight_of(p, i));
    result.value[w] += term;
    result.magnitude[w] += std::fabs(term);
  }
  return result;
}

Arithmetic arithmetic(const Prelu& p, bool of_weight) {
  Arithmetic how;
  how.output = p.x.type;
  how.accumulate = p.x.type == Type::kDouble ? Type::kDouble : Type::kFloat;
  if (of_weight) how.reduction_length = p.x.count() / p.weight.count();
  return how;
}

}  // namespace polymio::reference
