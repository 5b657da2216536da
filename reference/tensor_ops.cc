// The tensor operations, one element at a time.
// SPDX-License-Identifier: MIT
#include "reference/tensor_ops.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace polymio::reference {
namespace {

using Lens = std::vector<std::int64_t>;

struct Term {
  double value, magnitude;
};

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(std::string("reference tensor operation: ") + what);
}

// Collects term(i) + beta * old for every element i of the output.
template <class F>
Result for_each(const Tensor& output, double beta, const void* old, F term) {
  require(beta == 0 || old != nullptr, "beta needs the old output");
  Result result;
  for (std::int64_t i = 0; i < output.count(); ++i) {
    const double kept = beta == 0 ? 0 : beta * load(output.type, old, output.offset(i));
    const Term t = term(i);
    result.value.push_back(t.value + kept);
    result.magnitude.push_back(t.magnitude + std::fabs(kept));
  }
  return result;
}

// Offset in `small` of the element that repeats at dense index `i` of a tensor of sizes `lens`.
std::int64_t broadcast_offset(const Tensor& small, const Lens& lens, std::int64_t i) {
  std::int64_t offset = 0;
  for (std::size_t d = lens.size(); d-- > 0;) {
    if (small.lens[d] != 1) offset += i % lens[d] * small.strides[d];
    i /= lens[d];
  }
  return offset;
}

void require_broadcast(const Tensor& small, const Lens& lens) {
  require(small.lens.size() == lens.size(), "operands need the same number of dimensions");
  for (std::size_t d = 0; d < lens.size(); ++d) {
    require(small.lens[d] == lens[d] || small.lens[d] == 1,
            "each size of the repeated operand must be 1 or that of the output");
  }
}

void require_bias(const Tensor& bias, const Tensor& tensor) {
  require_broadcast(bias, tensor.lens);
  require(bias.lens.size() >= 2 && bias.lens[1] == tensor.lens[1] && bias.count() == bias.lens[1],
          "a bias has sizes 1, K, 1, ...");
}

Term combine(TensorOp op, double a, double b) {
  switch (op) {
    case TensorOp::kAdd: return {a + b, std::fabs(a) + std::fabs(b)};
    case TensorOp::kMul: return {a * b, std::fabs(a * b)};
    case TensorOp::kMin: return {std::min(a, b), std::max(std::fabs(a), std::fabs(b))};
    case TensorOp::kMax: return {std::max(a, b), std::max(std::fabs(a), std::fabs(b))};
  }
  throw std::invalid_argument("reference tensor operation: unknown operation");
}

}  // namespace

Result op_tensor(const OpTensor& p, const void* a, const void* b, const void* old) {
  require(p.a.lens == p.c.lens, "a and c need the same sizes");
  require_broadcast(p.b, p.c.lens);
  return for_each(p.c, p.beta, old, [&](std::int64_t i) {
    return combine(p.op, p.alpha1 * load(p.a.type, a, p.a.offset(i)),
                   p.alpha2 * load(p.b.type, b, broadcast_offset(p.b, p.c.lens, i)));
  });
}

Result set_tensor(const Tensor& y, double value) {
  return for_each(y, 0, nullptr, [value](std::int64_t) { return Term{value, std::fabs(value)}; });
}

Result scale_tensor(const Tensor& y, double alpha, const void* old) {
  return transform_tensor(alpha, y, old, 0, y, nullptr);
}

Result transform_tensor(double alpha, const Tensor& x, const void* x_data, double beta, const Tensor& y,
                        const void* old) {
  require(x.lens == y.lens, "x and y need the same sizes");
  return for_each(y, beta, old, [&](std::int64_t i) {
    const double value = alpha * load(x.type, x_data, x.offset(i));
    return Term{value, std::fabs(value)};
  });
}

Result bias_forward(double alpha, const Tensor& b, const void* b_data, double beta, const Tensor& y, const void* old) {
  require_bias(b, y);
  return for_each(y, beta, old, [&](std::int64_t i) {
    const double value = alpha * load(b.type, b_data, broadcast_offset(b, y.lens, i));
    return Term{value, std::fabs(value)};
  });
}

Result bias_backward(double alpha, const Tensor& dy, const void* dy_data, double beta, const Tensor& db,
                     const void* old) {
  require_bias(db, dy);
  const std::size_t channels = static_cast<std::size_t>(dy.lens[1]);
  std::vector<Term> sums(channels, Term{0, 0});
  const std::int64_t inner = dy.count() / (dy.lens[0] * dy.lens[1]);
  for (std::int64_t i = 0; i < dy.count(); ++i) {
    const double value = alpha * load(dy.type, dy_data, dy.offset(i));
    Term& sum = sums[static_cast<std::size_t>(i / inner) % channels];
    sum.value += value;
    sum.magnitude += std::fabs(value);
  }
  return for_each(db, beta, old, [&](std::int64_t i) { return sums[static_cast<std::size_t>(i)]; });
}

}  // namespace polymio::reference
