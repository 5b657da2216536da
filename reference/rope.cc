// SPDX-License-Identifier: MIT
#include "reference/rope.h"

#include <cmath>

namespace polymio::reference {

Result evaluate(const Rope& p, const void* x, const void* cos, const void* sin, std::span<const std::int64_t> sample) {
  Result result;
  const std::int64_t count = sample.empty() ? p.x.count() : static_cast<std::int64_t>(sample.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t o = sample.empty() ? i : sample[static_cast<std::size_t>(i)], f = o % p.cos.count();
    const bool even = o % 2 == 0;
    const double other = load(p.x.type, x, p.x.offset(o ^ 1));
    const double own = load(p.x.type, x, p.x.offset(o)) * load(p.cos.type, cos, p.cos.offset(f));
    const double rotated =
        (even != p.backward ? -other : other) * load(p.cos.type, sin, p.cos.offset(p.backward ? f ^ 1 : f));
    result.value.push_back(own + rotated);
    result.magnitude.push_back(std::fabs(own) + std::fabs(rotated));
  }
  return result;
}

Arithmetic rope_arithmetic(Type type) {
  Arithmetic how;
  how.output = type;
  how.accumulate = type == Type::kDouble ? Type::kDouble : Type::kFloat;
  how.reduction_length = 2;
  return how;
}

}  // namespace polymio::reference
