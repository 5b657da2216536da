// NVIDIA GPUs: the driver and the run-time compiler, opened when first needed.
// SPDX-License-Identifier: MIT
#pragma once
#include "runtime/gpu/gpu_stream.h"

namespace polymio::cuda {

const gpu::DeviceList& devices();

/// As 13000, of the driver that devices() found.
int driver_version();

/// In the primary context, so that memory of the CUDA runtime is valid; null is the default stream.
std::unique_ptr<Stream> create_stream(int index, void* native);

/// The device of a stream that a caller made, or of the current or some other context in use; -1 if the
/// process does not use CUDA.
int device_in_use(void* native);

/// "cuda-sm90".
std::unique_ptr<Compiler> create_compiler(const std::string& architecture);

}  // namespace polymio::cuda
