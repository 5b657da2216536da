// What find 2.0 needs of convolutions: the tensors of a run and its arguments.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>

#include "capi/find2/problem.h"

namespace polymio::capi {

/// The buffers of a problem.
struct ProblemBuffers {
  void* x = nullptr;
  void* w = nullptr;
  void* y = nullptr;
  void* bias = nullptr;
};

struct Role {
  miopenTensorArgumentId_t id;
  const TensorDesc* desc;  // null: the problem has no such argument
  void** buffer;
};

/// The arguments that need a buffer.
std::array<Role, 4> roles(const ProblemState&, const ConvolutionCall&, ProblemBuffers&);

convolution::Problem::Args arguments(const ProblemState&, const ConvolutionCall&, const ProblemBuffers&,
                                     void* workspace, std::size_t bytes);

}  // namespace polymio::capi
