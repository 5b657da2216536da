// What find 2.0 needs of a primitive, for softmax.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <span>

#include "capi/find2/single.h"

namespace polymio::capi {

SoftmaxCall make_call(const SoftmaxOperation&, const ProblemState&, Status missing);

std::array<TensorBuffer, 3> tensors_of(const ProblemState&, const SoftmaxCall&);

/// The solvers need no workspace.
softmax::Problem::Args arguments(const ProblemState&, const SoftmaxCall&, std::span<const TensorBuffer, 3>,
                                 void* workspace, std::size_t bytes);

}  // namespace polymio::capi
