// Devices of any OpenCL platform, through the loader libOpenCL.so.1, opened on first use.
// SPDX-License-Identifier: MIT
#pragma once
#include "runtime/gpu/gpu_stream.h"
#include "runtime/queue.h"

namespace polymio::opencl {

const gpu::DeviceList& devices();

/// `native` is a cl_command_queue, or null for the default queue of the device, in our own context.
std::unique_ptr<Stream> create_stream(int index, void* native);

std::unique_ptr<DeviceAccess> create_access(int index);

/// Waits for the blocking queues of create_queue on a device with this number among devices().
void finish_blocking_queues(int device);

}  // namespace polymio::opencl
