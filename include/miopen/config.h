// Which accelerator back end the including program uses. Both are 0 unless the program defines them
// before the first MIOpen include; they only choose the C type of a stream (types.h), never the
// device: one library serves every device.
// SPDX-License-Identifier: MIT
#ifndef MIOPEN_CONFIG_H_
#define MIOPEN_CONFIG_H_

/// 1: streams are `hipStream_t` and <hip/hip_runtime_api.h> is included.
#ifndef MIOPEN_BACKEND_HIP
#define MIOPEN_BACKEND_HIP 0
#endif

/// 1: streams are `cl_command_queue` and the OpenCL header is included.
#ifndef MIOPEN_BACKEND_OPENCL
#define MIOPEN_BACKEND_OPENCL 0
#endif

#endif  // MIOPEN_CONFIG_H_
