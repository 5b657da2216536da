// AMD GPUs: the HIP runtime and run-time compiler, opened on first use. Tested only without such a GPU: it has never
// run on one.
// SPDX-License-Identifier: MIT
#pragma once
#include "runtime/gpu/gpu_stream.h"

namespace polymio::hip {

const gpu::DeviceList& devices();
std::unique_ptr<Stream> create_stream(int index, void* native);

/// "hip-gfx90a".
std::unique_ptr<Compiler> create_compiler(const std::string& architecture);

}  // namespace polymio::hip
