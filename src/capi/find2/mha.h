// What find 2.0 needs of a primitive, for attention.
// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <span>

#include "capi/find2/single.h"

namespace polymio::capi {

MhaCall make_call(const MhaOperation&, const ProblemState&, Status missing);

/// In the order of MhaOperation::kTensors.
using MhaBuffers = std::array<TensorBuffer, std::size(MhaOperation::kTensors)>;
MhaBuffers tensors_of(const ProblemState&, const MhaCall&);

mha::Problem::Args arguments(const ProblemState&, const MhaCall&, std::span<const TensorBuffer, MhaBuffers{}.size()>,
                             void* workspace, std::size_t bytes);

}  // namespace polymio::capi
