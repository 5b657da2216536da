// NVIDIA's library of matrix products, opened when first needed.
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>

#include "runtime/device.h"

namespace polymio::cuda {

/// Whether the library is there.
bool has_cublaslt();

/// Of streams in the current context, which is `context`; null when the library offers nothing for the product.
std::unique_ptr<Multiplier> make_multiplier(void* context, const MatrixProduct&, int choice);

}  // namespace polymio::cuda
