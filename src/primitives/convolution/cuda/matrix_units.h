// What the solvers on NVIDIA's 16-bit matrix units need of a device.
// SPDX-License-Identifier: MIT
#pragma once
#include "runtime/device.h"

namespace polymio::convolution::cuda {

/// Whether the device has the matrix units of kernels/gpu/portable/matrix_units.h and cp.async: sm80 or newer.
inline bool has_matrix_units(const DeviceInfo& d) {
  constexpr int kOldest = 80;
  return d.gpu.compute_capability >= kOldest;
}

}  // namespace polymio::convolution::cuda
