// How far a correct result may be from the exact value, derived from the arithmetic used, and the
// comparison of a result with the reference.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>

#include "reference/convolution.h"

namespace polymio::reference {

// How the result was computed. An integer accumulator is exact.
struct Arithmetic {
  Type output = Type::kFloat;
  Type accumulate = Type::kFloat;
  std::int64_t reduction_length = 1;
  bool scaled = true;                // alpha or beta is applied, in float or better
  double input_rounding = 0;         // relative, of each factor: 2^-11 for tf32, 2^-8 for bfloat16
  double growth = 1;                 // amplification of rounding errors by a transform (Winograd)
  bool stochastic_rounding = false;  // the output may be rounded to either neighbour
};

// The accumulator type of a solver without approximations: double for double, int64 (that is, exact) for
// integers, float for everything else.
Type accumulator(const Convolution& problem);
// The arithmetic of such a solver.
Arithmetic arithmetic(const Convolution& problem);

// Bound of |computed - exact| before the rounding to the output type:
//   growth * min(n, 8 sqrt(n)) * u * magnitude, n = reduction_length + 3 (alpha, beta, their sum).
// n * u is the worst case of any order of summation; 8 sqrt(n) * u holds for independent rounding
// errors with probability 1 - 2 exp(-8^2 / 2) per sum (Azuma's inequality). Rounded inputs add
// ((1 + input_rounding)^2 - 1) * magnitude, the reference its own u = 2^-53, underflow half of the
// smallest positive number per term.
double error_bound(const Arithmetic& arithmetic, double magnitude);

// A result is right when it is the rounding, to the output type, of a number within error_bound of
// the value: so there is exactly one right result where the arithmetic is exact.
struct Interval {
  double low, high;
};
Interval accepted(const Arithmetic& arithmetic, double value, double magnitude);

// The largest accepted difference of a result from the correctly rounded value.
double tolerance(const Arithmetic& arithmetic, double value, double magnitude);

struct Comparison {
  std::int64_t failures = 0;
  double worst_ratio = 0;   // of error to tolerance: above 1 is a failure; infinite for NaN
  std::int64_t index = -1;  // dense index of the worst output, with what was found there
  double got = 0;
  double want = 0;  // the value, correctly rounded
  double tolerance = 0;
  double rms_error = 0;  // sqrt(mean((got - value)^2)) / max(|got|, |value|)

  bool ok() const { return failures == 0; }
};

// Compares the tensor at `data` with `expected`, which holds every output, or those of `sample` if
// it is not empty.
Comparison compare(const Arithmetic& arithmetic, const Tensor& tensor, const void* data, const Result& expected,
                   std::span<const std::int64_t> sample = {});

}  // namespace polymio::reference
