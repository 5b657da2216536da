// SPDX-License-Identifier: MIT
#include "reference/matmul.h"

#include <cmath>

namespace polymio::reference {

Result evaluate(const Matmul& p, const void* a, const void* b, const void* old) {
  const std::size_t column = p.c.lens.size() - 1, row = column - 1;
  Result result;
  for (std::int64_t i = 0; i < p.c.count(); ++i) {
    std::int64_t rest = i, a_at = 0, b_at = 0;
    for (std::size_t d = column + 1; d-- > 0; rest /= p.c.lens[d]) {
      const std::int64_t index = rest % p.c.lens[d];
      if (d != column && p.a.lens[d] != 1) a_at += index * p.a.strides[d];
      if (d != row && p.b.lens[d] != 1) b_at += index * p.b.strides[d];
    }
    double sum = 0, magnitude = 0;
    for (std::int64_t k = 0; k < p.k; ++k) {
      const double term =
          load(p.a.type, a, a_at + k * p.a.strides[column]) * load(p.b.type, b, b_at + k * p.b.strides[row]);
      sum += term;
      magnitude += std::fabs(term);
    }
    const double kept = p.beta == 0 ? 0 : p.beta * load(p.c.type, old, p.c.offset(i));
    result.value.push_back(p.alpha * sum + kept);
    result.magnitude.push_back(std::fabs(p.alpha) * magnitude + std::fabs(kept));
  }
  return result;
}

Arithmetic arithmetic(const Matmul& p) {
  Arithmetic how;
  how.output = p.c.type;
  how.accumulate = p.a.type == Type::kDouble ? Type::kDouble : Type::kFloat;
  how.reduction_length = p.k;
  return how;
}

}  // namespace polymio::reference
