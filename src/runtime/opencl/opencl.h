// Devices of any OpenCL platform, through the loader libOpenCL.so.1, opened on first use.
// SPDX-License-Identifier: MIT
#pragma once
#include "runtime/gpu/gpu_stream.h"

namespace polymio::opencl {

const gpu::DeviceList& devices();

/// `native` is a cl_command_queue, or null for a new queue in a context that all such streams of the device share.
std::unique_ptr<Stream> create_stream(int index, void* native);

}  // namespace polymio::opencl
