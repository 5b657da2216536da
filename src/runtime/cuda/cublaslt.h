// NVIDIA's library of matrix products, opened when first needed.
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>

#include "runtime/device.h"

namespace polymio::cuda {

/// Whether there is a library that is of use with the driver.
bool has_cublaslt();

/// "cuBLASLt 13.1", or why it is not used.
const std::string& cublaslt_note();

/// Whether a library made for this version of CUDA works on a driver of that one: only their major numbers matter.
constexpr bool serves_driver(std::size_t library, int driver) {
  return library / 1000 <= static_cast<std::size_t>(driver) / 1000;
}

/// Of streams in the current context, which is `context`; null when the library offers nothing for the product.
std::unique_ptr<Multiplier> make_multiplier(void* context, const MatrixProduct&, int choice);

}  // namespace polymio::cuda
