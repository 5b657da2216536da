// NVIDIA GPUs: the driver and the run-time compiler, opened on first use.
// SPDX-License-Identifier: MIT
#pragma once
#include "runtime/gpu/gpu_stream.h"
#include "runtime/queue.h"

namespace polymio::cuda {

const gpu::DeviceList& devices();

/// CUDA version of the driver (13000 is 13.0), 0 if there is none.
int driver_version();

/// A stream in the primary context, which the CUDA runtime uses, too; `native` null is the default stream.
std::unique_ptr<Stream> create_stream(int index, void* native);

std::unique_ptr<DeviceAccess> create_access(int index);

/// The device of the caller's stream, or of the current context, or of any primary context in use; -1 if the process
/// does not use CUDA.
int device_in_use(void* native);

/// 90 for "cuda-sm90", 0 for the architecture of another vendor.
int compute_capability(const std::string& architecture);

/// A typical device of "cuda-sm90".
DeviceInfo usual_device(const std::string& architecture);

/// For "cuda-sm90".
std::unique_ptr<Compiler> create_compiler(const std::string& architecture);

}  // namespace polymio::cuda
