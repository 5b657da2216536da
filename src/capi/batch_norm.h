// How the parameters of a batch norm are described.
// SPDX-License-Identifier: MIT
#pragma once
#include "primitives/batch_norm/batch_norm.h"

namespace polymio::capi {

/// The descriptors of scale, bias, mean and variance; `one`: the caller gave one for all of them.
struct NormParameters {
  const TensorDesc &scale, &bias, &mean, &variance;
  bool one = false;
};

/// Sets the parameters of the problem. One descriptor of 16 bits is that of scale and bias; then moments, and the
/// gradients of parameters, are fp32 for tensors with channels last.
void set_parameters(batch_norm::Problem&, const NormParameters&);

}  // namespace polymio::capi
