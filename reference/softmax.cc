// Softmax: the sums of every row, then the elements.
// SPDX-License-Identifier: MIT
#include "reference/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace polymio::reference {
namespace {

struct Row {
  double largest = -std::numeric_limits<double>::infinity();
  double sum = 0;        // of exp(x - largest); backward of y dy or dy
  double magnitude = 0;  // of the terms, with the rounding of the exponents
};

// The row of a dense index.
std::size_t row_of(const Softmax& p, std::int64_t dense) {
  const std::int64_t image = p.in.count() / p.in.lens[0], pixels = image / p.in.lens[1];
  return static_cast<std::size_t>(p.instance ? dense / image : dense / image * pixels + dense % pixels);
}

double in_at(const Softmax& p, const void* in, std::int64_t dense) { return load(p.in.type, in, p.in.offset(dense)); }

std::vector<Row> rows_of(const Softmax& p, const void* in, const void* dy) {
  std::vector<Row> rows(static_cast<std::size_t>(p.in.count() / p.row_size()));
  for (std::int64_t i = 0; !p.backward && i < p.in.count(); ++i) {
    double& largest = rows[row_of(p, i)].largest;
    largest = std::fmax(largest, in_at(p, in, i));
  }
  for (std::int64_t i = 0; i < p.in.count(); ++i) {
    Row& row = rows[row_of(p, i)];
    const double v = in_at(p, in, i), down = v - row.largest;
    const double term = !p.backward ? std::exp(down) : load(p.dy.type, dy, p.dy.offset(i)) * (p.log ? 1 : v);
    row.sum += term;
    row.magnitude += p.backward ? std::fabs(term) : term > 0 ? term * (1 - down) : 0;
  }
  return rows;
}

// The value of an element, and what its rounding errors are relative to.
struct Value {
  double value, magnitude;
};
Value forward(const Softmax& p, const Row& row, double x) {
  const double down = x - row.largest, deviation = row.magnitude / row.sum;
  if (p.log) return {down - std::log(row.sum), std::fabs(down) + std::log(row.sum) + deviation};
  const double value = std::exp(down) / row.sum;
  return {value, value * (value > 0 ? deviation - down : 0)};
}
Value backward(const Softmax& p, const Row& row, double y, double dy) {
  if (!p.log) return {y * (dy - row.sum), std::fabs(y) * (std::fabs(dy) + row.magnitude)};
  return {dy - std::exp(y) * row.sum, std::fabs(dy) + std::exp(y) * (1 + std::fabs(y)) * row.magnitude};
}

}  // namespace

std::int64_t Softmax::row_size() const { return instance ? in.count() / in.lens[0] : in.lens[1]; }

Result evaluate(const Softmax& p, const void* in, const void* dy, const void* old,
                std::span<const std::int64_t> sample) {
  const std::vector<Row> rows = rows_of(p, in, dy);
  Result result;
  const std::int64_t count = sample.empty() ? p.out.count() : static_cast<std::int64_t>(sample.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = sample.empty() ? i : sample[static_cast<std::size_t>(i)];
    const Row& row = rows[row_of(p, at)];
    const double v = in_at(p, in, at);
    const Value of = p.backward ? backward(p, row, v, load(p.dy.type, dy, p.dy.offset(at))) : forward(p, row, v);
    const double kept = p.keep == 0 ? 0 : p.keep * load(p.out.type, old, p.out.offset(at));
    result.value.push_back(p.scale * of.value + kept);
    result.magnitude.push_back(std::fabs(p.scale) * of.magnitude + std::fabs(kept));
  }
  return result;
}

Arithmetic arithmetic(const Softmax& p) {
  Arithmetic how;
  how.output = p.out.type;
  how.accumulate = p.out.type == Type::kDouble ? Type::kDouble : Type::kFloat;
  how.reduction_length = p.row_size() + 5;  // the operation has about eight roundings besides the sum
  return how;
}

}  // namespace polymio::reference
