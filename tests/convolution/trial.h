// A convolution given as a driver line, with data and expected results in double, for tests of cases and fuzzers.
// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "driver/run/conv_args.h"
#include "driver/run/conv_problem.h"
#include "primitives/convolution/convolution.h"
#include "reference/convolution.h"
#include "reference/tolerance.h"
#include "tests/runner/tensors.h"

namespace polymio::test {

/// Throws BadParm where the library refuses the problem.
inline convolution::Problem translate(const driver::Problem& p) {
  convolution::Problem q;
  q.direction = static_cast<convolution::Direction>(p.math.direction);
  q.x = describe(p.math.x);
  q.w = describe(p.math.w);
  q.y = describe(p.math.y);
  q.geometry.spatial = static_cast<int>(p.math.pad.size());
  q.geometry.groups = p.math.groups;
  for (std::size_t i = 0; i < p.math.pad.size(); ++i) {
    q.geometry.pad[i] = p.math.pad[i];
    q.geometry.stride[i] = p.math.stride[i];
    q.geometry.dilation[i] = p.math.dilation[i];
  }
  const double a = p.args.alpha, b = p.args.beta;
  q.scalars = b != 0   ? convolution::Scalars::kBilinear
              : a != 1 ? convolution::Scalars::kScale
                       : convolution::Scalars::kDefault;
  if (p.args.fp8_rounding == 1) q.rounding = convolution::Rounding::kStochastic;
  convolution::validate(q);
  return q;
}

struct Trial {
  const driver::Problem& source;
  convolution::Problem problem;
  std::vector<unsigned char> x, w, y;  // contents before the run
  reference::Result expected;
  reference::Arithmetic arithmetic;

  explicit Trial(const driver::Problem& p, Gaps gaps = Gaps::kNumbers, std::uint64_t seed = 1, Data data = {})
      : source(p), problem(translate(p)) {
    x = random_tensor(p.math.x, seed, gaps, data);
    w = random_tensor(p.math.w, seed + 1, gaps, data);
    y = random_tensor(p.math.y, seed + 2, gaps, data);
    expected = reference::evaluate(p.math, {x.data(), w.data(), y.data()});
    arithmetic = reference::arithmetic(p.math);
    arithmetic.stochastic_rounding = problem.rounding == convolution::Rounding::kStochastic;
  }

  const std::vector<unsigned char>& output_before() const {
    return problem.direction == convolution::Direction::kForward        ? y
           : problem.direction == convolution::Direction::kBackwardData ? x
                                                                        : w;
  }

  /// Compares the output tensor at `data` within the bound of the solver's error class.
  reference::Comparison compare(const SolverBase& solver, const void* data) const {
    reference::Arithmetic how = arithmetic;
    const ErrorClass error = solver.error_class(problem);
    if (error == ErrorClass::kReduced) how.input_rounding = 1.0 / 1024;  // truncated to tf32
    if (error != ErrorClass::kApproximate) return reference::compare(how, source.math.output(), data, expected);
    // Transforms amplify rounding errors and distribute them over neighbours, some of which sum fewer products.
    how.growth = 2;
    reference::Result even = expected;
    const double largest = *std::max_element(even.magnitude.begin(), even.magnitude.end());
    std::fill(even.magnitude.begin(), even.magnitude.end(), largest);
    return reference::compare(how, source.math.output(), data, even);
  }
};

}  // namespace polymio::test
