// Batch normalisation by definition, in double.
// SPDX-License-Identifier: MIT
#pragma once

#include "reference/activation.h"

namespace polymio::reference {

struct BatchNorm {
  enum class Direction { kTraining, kInference, kBackward };
  Direction direction = Direction::kTraining;
  bool spatial = true;    // one mean per channel, else per element of an image
  Activation activation;  // mode, alpha and beta
  double epsilon = 0, factor = 1;
  bool inverse = false;                            // inference: the variances given are 1 / sqrt(variance + epsilon)
  double scale = 1, keep = 0;                      // out = scale * (...) + keep * old
  double parameter_scale = 1, parameter_keep = 0;  // the gradients of the parameters likewise
  Tensor x, dy, out;                               // y or dx; dy: backward only
  Tensor scales, biases, moments;                  // biases: also the gradients of both
};

// Addresses; null where there is nothing. mean, variance: training: the running ones before; inference: those used;
// backward: the saved mean and 1 / sqrt(variance + epsilon), or null.
struct BatchNormInputs {
  const void *x = nullptr, *dy = nullptr, *old = nullptr, *scale = nullptr, *bias = nullptr, *mean = nullptr,
             *variance = nullptr, *old_dscale = nullptr, *old_dbias = nullptr;
};

// In dense order. Training has all but the gradients, inference `out` only.
struct BatchNormResults {
  Result out, mean, inverse, next_mean, next_variance, dscale, dbias;
};

// The sizes of the parameters.
std::vector<std::int64_t> parameter_lens(const BatchNorm& problem);

BatchNormResults evaluate(const BatchNorm& problem, const BatchNormInputs& inputs);

// The error bound of an implementation in float (double for double x) of a result of this type.
Arithmetic arithmetic(const BatchNorm& problem, Type type);

}  // namespace polymio::reference
