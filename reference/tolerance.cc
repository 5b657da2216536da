// Error bounds and the comparison of a result with the reference.
// SPDX-License-Identifier: MIT
#include "reference/tolerance.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>

namespace polymio::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Relative error of a sum of n terms in arithmetic with unit roundoff u.
double summation_error(double n, double u) { return std::min(n, 8 * std::sqrt(n)) * u; }

double error_ratio(double got, double want, const Interval& range) {
  if (std::isnan(got) || std::isnan(want)) {
    return std::isnan(got) && std::isnan(want) ? 0 : kInfinity;
  }
  if (got == want) return 0;
  const double ratio = got > want ? (got - want) / (range.high - want) : (want - got) / (want - range.low);
  const bool inside = range.low <= got && got <= range.high;
  if (std::isnan(ratio)) return inside ? 1 : kInfinity;
  return inside ? std::min(ratio, 1.0) : ratio;
}

// Sums of the metric of rms_error.
struct Rms {
  double squares = 0;
  double largest = DBL_MIN;
  double count = 0;

  void add(double got, double value) {
    ++count;
    if (got == value) return;  // equal infinities
    squares += (got - value) * (got - value);
    largest = std::max({largest, std::fabs(got), std::fabs(value)});
  }
  double error() const {
    if (count == 0) return 0;
    const double error = std::sqrt(squares / count) / largest;
    return std::isnan(error) ? kInfinity : error;
  }
};

}  // namespace

Type accumulator(const Convolution& problem) {
  const bool data_gradient = problem.direction == Direction::kBackwardData;
  const bool weights_gradient = problem.direction == Direction::kBackwardWeights;
  const Type a = data_gradient ? problem.y.cast : problem.x.cast;
  const Type b = weights_gradient ? problem.y.cast : problem.w.cast;
  if (is_integer(a) && is_integer(b)) return Type::kInt64;
  return a == Type::kDouble && b == Type::kDouble ? Type::kDouble : Type::kFloat;
}

Arithmetic arithmetic(const Convolution& problem) {
  Arithmetic result;
  result.output = problem.output().type;
  result.accumulate = accumulator(problem);
  result.reduction_length = problem.reduction_length();
  result.scaled = problem.alpha != 1 || problem.beta != 0;
  return result;
}

double error_bound(const Arithmetic& how, double magnitude) {
  const bool exact = is_integer(how.accumulate);
  if (exact && !how.scaled) return 0;
  const double n = exact ? 3 : static_cast<double>(how.reduction_length) + 3;
  const Type computed = exact ? Type::kFloat : how.accumulate;
  const double rounding = how.growth * summation_error(n, unit_roundoff(computed));
  const double inputs = how.input_rounding * (2 + how.input_rounding);
  const double reference = summation_error(n, unit_roundoff(Type::kDouble));
  const double underflow = 0.5 * n * smallest_positive(computed);
  return (rounding + inputs + reference) * magnitude + underflow;
}

Interval accepted(const Arithmetic& how, double value, double magnitude) {
  const double bound = error_bound(how, magnitude);
  const bool stochastic = how.stochastic_rounding;
  return {round_to(how.output, value - bound, stochastic ? Rounding::kDown : Rounding::kNearest),
          round_to(how.output, value + bound, stochastic ? Rounding::kUp : Rounding::kNearest)};
}

double tolerance(const Arithmetic& how, double value, double magnitude) {
  const double want = round_to(how.output, value);
  const Interval range = accepted(how, value, magnitude);
  return want == range.low && want == range.high ? 0 : std::max(range.high - want, want - range.low);
}

Comparison compare(const Arithmetic& how, const Tensor& tensor, const void* data, const Result& expected,
                   std::span<const std::int64_t> sample) {
  Comparison result;
  Rms rms;
  for (std::size_t i = 0; i < expected.value.size(); ++i) {
    const std::int64_t index = sample.empty() ? static_cast<std::int64_t>(i) : sample[i];
    const double value = expected.value[i];
    const double got = load(tensor.type, data, tensor.offset(index));
    rms.add(got, value);
    const double want = round_to(how.output, value);
    const double ratio = error_ratio(got, want, accepted(how, value, expected.magnitude[i]));
    if (ratio > 1) ++result.failures;
    if (result.index >= 0 && ratio <= result.worst_ratio) continue;
    result.worst_ratio = ratio;
    result.index = index;
    result.got = got;
    result.want = want;
    result.tolerance = tolerance(how, value, expected.magnitude[i]);
  }
  result.rms_error = rms.error();
  return result;
}

}  // namespace polymio::reference
