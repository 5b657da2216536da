// Nodes of graphs by definition, in double, on dense tensors in row-major order.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

#include "reference/reduce.h"

namespace polymio::reference {

struct Dense {
  std::vector<std::int64_t> sizes;
  std::vector<double> values;

  std::int64_t count() const;
};

// A pointwise node; `mode` is a miopenPointwiseMode_t.
struct Pointwise {
  int mode = 0;
  double lower_clip = 0, upper_clip = 3.402823466385288598e38, lower_slope = 0;
  double elu_alpha = 1, softplus_beta = 1, swish_beta = 1;
  double alpha1 = 1, alpha2 = 1;
  bool propagates_nan = false;
  std::int64_t axis = -1;  // of indices
};

// Of one element: X and B; X, B and T of a selection; Y and DY where the mode is a derivative. Others are ignored.
double pointwise_at(const Pointwise& node, double x, double b, double t);
// Operands of size 1 are repeated.
Dense pointwise(const Pointwise& node, const std::vector<const Dense*>& in, const std::vector<std::int64_t>& sizes);

// c = a x b, or a x b transposed, for every batch index; batch sizes of 1 are repeated. Ranks are equal.
Dense product(const Dense& a, const Dense& b, bool transposed, const std::vector<std::int64_t>& sizes);

// Sizes of the result divide those of x: neighbours are reduced.
Dense reduce(ReduceOp op, const Dense& x, const std::vector<std::int64_t>& sizes);

Dense exchange_last(const Dense& x);

// Numbers of the distribution 0 (Bernoulli: probability), 1 (uniform: least, largest), 2 (normal: mean, deviation).
Dense random_numbers(int distribution, double first, double second, std::uint64_t seed, std::uint64_t offset,
                     const std::vector<std::int64_t>& sizes);

}  // namespace polymio::reference
