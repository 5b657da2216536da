// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/kernels.h"
#include "runtime/device.h"

namespace polymio::common {

/// The CPU kernels of the device's instruction set.
inline const kernels::KernelTable& kernel_table(const DeviceInfo& device) {
  return kernels::kernel_table(static_cast<kernels::Isa>(device.isa));
}

}  // namespace polymio::common
