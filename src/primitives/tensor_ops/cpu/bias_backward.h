// Sums over everything but the channels: db = alpha * sum(dy) + beta * db.
// SPDX-License-Identifier: MIT
#pragma once
#include "primitives/tensor_ops/tensor_ops.h"

namespace polymio::tensor_ops {

/// The caller has checked the sizes.
void run_bias_backward(Stream& stream, double alpha, Input dy, double beta, Output db);

}  // namespace polymio::tensor_ops
