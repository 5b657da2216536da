// SPDX-License-Identifier: MIT
#include "reference/reduce.h"

#include <cmath>
#include <limits>
#include <stdexcept>

namespace polymio::reference {
namespace {

// What a row has come to.
struct Row {
  double value, magnitude = 0;
  std::int64_t position = 0, seen = 0;
};

bool is_extreme(ReduceOp op) { return op == ReduceOp::kMin || op == ReduceOp::kMax || op == ReduceOp::kAmax; }

double identity(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMul: return 1;
    case ReduceOp::kMin: return std::numeric_limits<double>::infinity();
    case ReduceOp::kMax: return -std::numeric_limits<double>::infinity();
    default: return 0;
  }
}

void add(const Reduction& p, double x, Row& row) {
  if (p.nan == ReduceNan::kZero && std::isnan(x)) x = 0;
  if (p.op == ReduceOp::kAmax || p.op == ReduceOp::kNorm1) x = std::fabs(x);
  if (p.op == ReduceOp::kNorm2) x *= x;
  if (is_extreme(p.op)) {
    const bool better = p.op == ReduceOp::kMin ? x < row.value : x > row.value;
    const bool nan_wins =
        std::isnan(x) && (p.nan == ReduceNan::kPropagate || (p.nan == ReduceNan::kFirst && row.seen == 0));
    if (better || nan_wins) {
      row.value = x;
      row.position = row.seen;
    }
  } else {
    row.value = p.op == ReduceOp::kMul ? row.value * x : row.value + x;
    row.magnitude += std::fabs(x);
  }
  ++row.seen;
}

// The number in c of the row of element `i`.
std::int64_t row_of(const Reduction& p, std::int64_t i) {
  std::int64_t row = 0, step = 1;
  for (std::size_t d = p.a.lens.size(); d-- > 0;) {
    if (p.c.lens[d] != 1) row += i % p.a.lens[d] * step;
    step *= p.c.lens[d];
    i /= p.a.lens[d];
  }
  return row;
}

}  // namespace

Reduced evaluate(const Reduction& p, const void* a, const void* old) {
  if (p.a.lens.size() != p.c.lens.size()) throw std::invalid_argument("reference reduction: ranks differ");
  std::vector<Row> rows(static_cast<std::size_t>(p.c.count()), Row{identity(p.op)});
  for (std::int64_t i = 0; i < p.a.count(); ++i)
    add(p, load(p.a.type, a, p.a.offset(i)), rows[static_cast<std::size_t>(row_of(p, i))]);
  Reduced result;
  for (std::int64_t i = 0; i < p.c.count(); ++i) {
    Row row = rows[static_cast<std::size_t>(i)];
    const auto length = static_cast<double>(row.seen);
    if (p.op == ReduceOp::kAvg) {
      row.value /= length;
      row.magnitude /= length;
    }
    if (p.op == ReduceOp::kNorm2) row.value = std::sqrt(row.value);
    if (p.op == ReduceOp::kNorm2 || p.op == ReduceOp::kMul || is_extreme(p.op)) row.magnitude = std::fabs(row.value);
    const double kept = p.beta == 0 ? 0 : p.beta * load(p.c.type, old, p.c.offset(i));
    result.values.value.push_back(p.alpha * row.value + kept);
    result.values.magnitude.push_back(std::fabs(p.alpha) * row.magnitude + std::fabs(kept));
    result.positions.value.push_back(static_cast<double>(row.position));
    result.positions.magnitude.push_back(0);
  }
  return result;
}

Arithmetic arithmetic(const Reduction& p) {
  Arithmetic how;
  how.output = p.c.type;
  how.scaled = p.alpha != 1 || p.beta != 0 || p.op == ReduceOp::kAvg;
  const bool whole = p.op != ReduceOp::kMul && p.op != ReduceOp::kNorm2;
  how.accumulate = is_integer(p.a.type) && whole                            ? Type::kInt64
                   : p.a.type == Type::kDouble && p.c.type == Type::kDouble ? Type::kDouble
                                                                            : Type::kFloat;
  how.reduction_length = is_extreme(p.op) ? 1 : p.length();
  const bool rounds_twice = p.a.type == Type::kDouble && p.c.type != Type::kDouble;
  if (is_extreme(p.op) && !how.scaled && !rounds_twice) how.accumulate = Type::kInt64;  // exact
  return how;
}

}  // namespace polymio::reference
