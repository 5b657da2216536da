// What the solvers on NVIDIA's matrix units need of a device, and the 8-bit floats that the units take.
// SPDX-License-Identifier: MIT
#pragma once
#include "runtime/device.h"

namespace polymio::convolution::cuda {

/// Whether the device has the matrix units of kernels/gpu/portable/matrix_units.h and cp.async: sm80 or newer.
inline bool has_matrix_units(const DeviceInfo& d) {
  constexpr int kOldest = 80;
  return d.gpu.compute_capability >= kOldest;
}

/// Whether these multiply 8-bit floats.
inline bool has_float8_units(const DeviceInfo& d) {
  constexpr int kOldest = 89;
  return d.gpu.compute_capability >= kOldest;
}
inline bool is_ocp8(DataType t) { return t == DataType::kFloat8E4m3fn || t == DataType::kFloat8E5m2; }

}  // namespace polymio::convolution::cuda
