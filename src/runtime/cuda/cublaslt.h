// cuBLASLt, NVIDIA's matrix product library; opened on first use.
// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>

#include "runtime/device.h"

namespace polymio::cuda {

/// Whether cuBLASLt is installed and supports the driver.
bool has_cublaslt();

/// "cuBLASLt for CUDA 13.1", or why it is not used.
const std::string& cublaslt_note();

/// Whether a library for CUDA version `library` works on a driver for version `driver`: major versions are compared.
constexpr bool serves_driver(std::size_t library, int driver) {
  return library / 1000 <= static_cast<std::size_t>(driver) / 1000;
}

/// A product for streams in `context`, which is current; null if the library has no algorithm for it.
std::unique_ptr<Multiplier> make_multiplier(void* context, const MatrixProduct&, int choice);

}  // namespace polymio::cuda
