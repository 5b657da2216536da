// The driver's command of a fused call.
// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "primitives/fusion/fusion.h"

namespace polymio::capi {

/// The operations in this order; each null if there is none.
struct FusedCall {
  TensorDesc x;
  const convolution::Problem* convolution = nullptr;
  bool bias = false;
  const batch_norm::Problem* norm = nullptr;  // by given moments
  double epsilon = 0;
  const activation::Mode* activation = nullptr;
  activation::Parameters parameters{};
};

/// MIOpenDriver's CBAInfer with its flags; nothing for chains, types and strides that it does not have.
std::string command_of(const FusedCall&);

}  // namespace polymio::capi
